"""Whether `torchrun` started this process, from the environment variables that it sets; torch is not imported.

>>> import os
>>> is_launched() or "RANK" not in os.environ
True
"""

from __future__ import annotations

import os

VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def is_launched() -> bool:
    """Whether this process is a rank of a torchrun job."""
    return all(name in os.environ for name in VARIABLES)


def is_follower() -> bool:
    """Whether it is a rank other than 0, which leaves files and decisions to rank 0."""
    return is_launched() and os.environ["RANK"] != "0"


def is_restarted() -> bool:
    """Whether torchrun started the job again after a failure (`--max-restarts`)."""
    return is_launched() and os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") != "0"


def launcher() -> list[str]:
    """The beginning of the command that starts the ranks of this machine; empty where torchrun started none."""
    local = os.environ.get("LOCAL_WORLD_SIZE", "1")
    return ["torchrun", "--nproc-per-node", local, "-m", "harken"] if is_launched() else []
