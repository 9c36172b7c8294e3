"""The one switch of all kernels, the environment variable `HARKEN_KERNELS`.

`HARKEN_KERNELS=off` disables every kernel of this package; the references in `harken.nn` and torch's own operators are
used instead. It is read at each call, so a test or benchmark can change it between calls.
"""

from __future__ import annotations

import os


def kernels_enabled() -> bool:
    """False where `HARKEN_KERNELS=off` is set."""
    return os.environ.get("HARKEN_KERNELS", "") != "off"
