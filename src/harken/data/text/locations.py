"""The files that a `[data]` table names, before any is read."""

from __future__ import annotations

from typing import Any

from harken.data.io.folders import Split, splits_in_folder
from harken.data.io.formats import Layout, format_of
from harken.data.synthetic.seq2seq import MADE
from harken.errors import UserError

BILINGUAL = ("phrasebook", "tatoeba")  # with a `data.direction`: en-fr or fr-en
BUILT_IN = (*BILINGUAL, *MADE)


def origin(config: Any) -> str:
    """`corpus`, `files` or `folder`: the one that is given."""
    given = {"corpus": bool(config.corpus), "files": bool(config.source or config.target), "folder": bool(config.dir)}
    keys = {"corpus": "data.corpus", "files": "data.source and data.target", "folder": "data.dir and data.pair"}
    chosen = [name for name, is_given in given.items() if is_given]
    if len(chosen) > 1:
        raise UserError(f"{' and '.join(keys[name] for name in chosen)} are both given: keep one of them.")
    if not chosen:
        raise UserError(
            "The recipe names no data: set data.source and data.target to files, data.dir and data.pair to a folder "
            f'and its languages, or data.corpus to "{BUILT_IN[0]}".'
        )
    if chosen == ["corpus"] and config.corpus not in BUILT_IN:
        known = f"{', '.join(BUILT_IN[:-1])} or {BUILT_IN[-1]}"
        raise UserError(f'data.corpus is "{config.corpus}", which is not built in: use {known}.')
    if chosen == ["files"] and not config.source:
        raise UserError("data.target is given without data.source: name the file with the source side too.")
    return chosen[0]


def splits_of(config: Any) -> dict[str, Split]:
    """Name -> (source files, target files): always train, valid where given, then the tests."""
    if config.dir:
        splits = splits_in_folder(config.dir, config.pair)
    else:
        splits = {"train": Split(as_list(config.source), as_list(config.target))}
    if config.valid is not None:
        splits["valid"] = Split(as_list(config.valid.source), as_list(config.valid.target))
    for name, files in (config.test or {}).items():
        if name in ("train", "valid"):
            raise UserError(f"data.test.{name} has the name of another split: call this test something else.")
        splits[name] = Split(as_list(files.source), as_list(files.target))
    return splits


def as_list(files: str | list[str] | None) -> list[str]:
    """One file, several or none, as a list."""
    if files is None:
        return []
    return [files] if isinstance(files, str) else list(files)


def layout_of(config: Any) -> Layout:
    """The layout of the files of the table."""
    form = "text" if config.dir else config.format
    return Layout(
        form,
        config.source_column,
        config.target_column,
        config.header,
        config.max_line_bytes,
        config.quotes,
        config.encoding,
    )


def file_pairs(name: str, split: Split, layout: Layout) -> list[tuple[str, str | None]]:
    """The files of a split, two by two; the second is None where one file holds both sides."""
    sources, targets = split
    if not sources:
        raise UserError(f"No file is named for the {name} split: set its source.")
    if not targets:
        if any(format_of(source, None, layout.format) == "text" for source in sources):
            raise UserError(f"The {name} split has {sources[0]} as source but no target: name the target file too.")
        return [(source, None) for source in sources]
    if len(sources) != len(targets):
        raise UserError(
            f"The {name} split has {len(sources)} source files but {len(targets)} target files: "
            "list them in pairs, in the same order."
        )
    return list(zip(sources, targets, strict=True))
