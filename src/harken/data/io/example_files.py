"""Which files a name, a pattern or a list of them stands for.

>>> here = Path(__file__).parent
>>> [path.name for path in matching(str(here), ["example_f*.py", "token_rows.py"])]
['example_files.py', 'token_rows.py']
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from harken.data.io.files import require_file
from harken.errors import UserError

WILD = "*?["


def matching(folder: str | None, names: str | Sequence[str] | None) -> list[Path]:
    """Every file, sorted where a pattern finds several; a folder is given as it is.

    Raises:
        UserError: a name that is not there, or a pattern that fits nothing.
    """
    base = Path(folder).expanduser() if folder else Path()
    if folder and not base.is_dir():
        raise UserError(f"data.dir is {folder}, which is no folder; check the path")
    found: list[Path] = []
    for name in [names] if isinstance(names, str) else names or []:
        if not any(sign in name for sign in WILD):
            place = base / Path(name).expanduser()
            found.append(place if place.is_dir() else require_file(place))
            continue
        whole = base / name if not Path(name).is_absolute() else Path(name)
        fitting = sorted(Path(whole.anchor).glob(str(whole.relative_to(whole.anchor))))
        if not fitting:
            raise UserError(f"no file fits {whole}; check data.dir and the pattern")
        found += fitting
    return found
