"""The files that a folder, a name or a pattern stands for.

`splits_in_folder` reads a folder laid out as Multi30k is: `train.en.gz`, `val.en.gz`, `test_2016_flickr.en.gz`. Every
file is found plain, as .gz or as .xz. `val` may be called `valid` or `dev`; where it is there in one language it must
be in the other. Every name that starts with `test` and is there in both languages is a test split. A form that the
names share may stand before the language: `train.lc.norm.tok.en.gz`. `matching` finds the files of names and patterns.

>>> here = Path(__file__).parent
>>> [path.name for path in matching(str(here), ["fold*.py", "token_rows.py"])]
['folders.py', 'token_rows.py']
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from harken.data.io.files import COMPRESSIONS, require_file
from harken.errors import UserError
from harken.files import expand_user

VALIDATION_NAMES = ("val", "valid", "dev")


class Split(NamedTuple):
    """The files of one split, in the same order on both sides."""

    sources: list[str]
    targets: list[str]


def splits_in_folder(folder: str | Path, pair: str | None) -> dict[str, Split]:
    """`train`, `valid` where there is one, and the tests in order of name.

    Raises:
        UserError: the folder, the pair, a training file or one side of the validation is missing.
    """
    folder = expand_user(folder)
    if not folder.is_dir():
        problem = "is a file where a folder is wanted" if folder.exists() else "does not exist"
        raise UserError(f"data.dir {folder} {problem}: name the folder that holds train.LANG and val.LANG.")
    languages = (pair or "").split("-")
    if len(languages) != 2 or not all(languages):
        raise UserError(f'data.pair is "{pair or ""}": write two languages as in the file names, such as "en-de".')
    sides = [_files_of(folder, language) for language in languages]
    for language, side in zip(languages, sides, strict=True):
        if "train" not in side:
            known = sorted({language for name, language in map(_split_name, folder.iterdir()) if name == "train"})
            remedy = f"data.pair can use {', '.join(known)}" if known else "data.dir must hold train.LANG files"
            raise UserError(f"{folder} has no file train.{language} (plain, .gz or .xz): {remedy}.")
    common = sorted(sides[0].keys() & sides[1].keys())
    names = {"train": "train"}
    validation = next((name for name in VALIDATION_NAMES if name in common), None)
    if validation:
        names["valid"] = validation
    else:
        _refuse_half(folder, languages, sides)
    names.update({name: name for name in common if name.startswith("test")})
    return {name: Split([str(sides[0][file])], [str(sides[1][file])]) for name, file in names.items()}


def _refuse_half(folder: Path, languages: list[str], sides: list[dict[str, Path]]) -> None:
    """No validation file may be without its other side: to split it off from training would hide a mistake."""
    for here, other in ((0, 1), (1, 0)):
        for name in VALIDATION_NAMES:
            if name in sides[here]:
                raise UserError(
                    f"{folder} has {sides[here][name].name} but no file {name}.{languages[other]} (plain, .gz or .xz): "
                    f"add it, or remove {sides[here][name].name} to validate on pairs split off from training."
                )


def _files_of(folder: Path, language: str) -> dict[str, Path]:
    """Split name -> file, the plain one first where a file is there twice."""
    files: dict[str, Path] = {}
    for path in sorted(folder.iterdir()):
        name, file_language = _split_name(path)
        if file_language == language and path.is_file():
            files.setdefault(name, path)
    forms = [name.removeprefix("train") for name in files if name.startswith("train.")]
    if "train" in files or len(forms) != 1:
        return files
    return {name.removesuffix(forms[0]): path for name, path in files.items()}


def _split_name(path: Path) -> tuple[str, str]:
    """`test_2016_flickr.en.gz` -> ("test_2016_flickr", "en")."""
    base = path.stem if path.suffix in COMPRESSIONS else path.name
    name, _, language = base.rpartition(".")
    return name, language


WILD = "*?["


def matching(folder: str | None, names: str | Sequence[str] | None) -> list[Path]:
    """Every file, sorted where a pattern finds several; a folder is given as it is.

    Raises:
        UserError: a name that is not there, or a pattern that fits nothing.
    """
    base = expand_user(folder) if folder else Path()
    if folder and not base.is_dir():
        raise UserError(f"data.dir is {folder}, which is no folder; check the path")
    paths: list[Path] = []
    for name in [names] if isinstance(names, str) else names or []:
        if not any(sign in name for sign in WILD):
            path = base / expand_user(name)
            paths.append(path if path.is_dir() else require_file(path))
            continue
        whole = base / name if not Path(name).is_absolute() else Path(name)
        fitting = sorted(Path(whole.anchor).glob(str(whole.relative_to(whole.anchor))))
        if not fitting:
            raise UserError(f"no file fits {whole}; check data.dir and the pattern")
        paths += fitting
    return paths
