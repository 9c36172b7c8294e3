"""`harken caption`: pictures in, a sentence for each out, with a map for every word where wanted.

plain     text, or file TAB text where there are several pictures
--json    {"image": ..., "text": ..., "score": ..., "words": [...], "attention": [rows x columns for each word]}
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from harken.cli.common import AsJson, Beam, ModelFolder, counting, load_for, require_ending, tell
from harken.cli.search_options import TEXT_ONLY, with_search_options
from harken.errors import UserError


@partial(with_search_options, without=TEXT_ONLY)
def caption(
    model: ModelFolder,
    images: Annotated[list[Path], typer.Argument(metavar="IMAGE...", help="PNG or JPEG files, or folders of them.")],
    beam: Beam = None,
    out: Annotated[Path | None, typer.Option(help="Write the maps of every word: maps.html, maps.svg or .png.")] = None,
    as_json: AsJson = False,
    search: dict[str, Any] | None = None,
) -> None:
    """Describe pictures, and show which regions the model attends to for every word."""
    require_ending(out, stem="maps")
    files = picture_files(images)
    captioner = load_for("caption", model)
    with counting("pictures", len(files) > 1, len(files)) as tick:
        found = captioner.caption(files, beam=beam, progress=tick, **(search or {}))
    for best in found:
        if as_json:
            maps = None if best.attention is None else best.attention.round(4).tolist()
            entry = {"image": best.name, "text": best.text, "score": round(best.score, 4)}
            print(json.dumps({**entry, "words": best.words, "attention": maps, "note": best.note}, ensure_ascii=False))
            continue
        print(best.text if len(found) == 1 else f"{best.name}\t{best.text}")
        if best.note:
            tell(f"{best.name}: {best.note}")
        if sys.stdout.isatty() and best.attention is not None and best.words:
            print(f"\n{best.picture.to_terminal()}\n")
    if out is not None:
        from harken.inspection.pictures.drawings import CaptionPage

        CaptionPage([best.picture for best in found if best.words]).save(out)
        tell(f"Wrote {out}")


def picture_files(given: Sequence[Path]) -> list[Path]:
    """The files named, and those in the folders named.

    Raises:
        UserError: a folder without pictures.
    """
    from harken.data.images.files import ENDINGS as PICTURES

    files: list[Path] = []
    for path in given:
        if not path.is_dir():
            files.append(path)
            continue
        inside = sorted(one for one in path.iterdir() if one.suffix.lower() in PICTURES)
        if not inside:
            raise UserError(f"{path} holds no picture ({', '.join(PICTURES)}); name files, or another folder")
        files += inside
    return files
