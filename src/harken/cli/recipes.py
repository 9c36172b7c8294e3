"""`harken recipes`: what ships, and a file to start from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harken.cli.common import print_table, tell
from harken.errors import UserError
from harken.files import atomic_write


def recipes(
    name: Annotated[str | None, typer.Argument(help="Print this recipe.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write it to this file instead, to change and train.")] = None,
) -> None:
    """List the recipes that ship, or print one."""
    from harken.recipe import describe, recipe_names, recipe_text

    if name is None:
        if out is not None:
            raise UserError("--out needs a recipe's name, such as: harken recipes phrasebook-transformer --out my.toml")
        print_table(("recipe", "what it trains"), [(known, describe(known)) for known in recipe_names()])
        return
    text = recipe_text(name)
    if out is None:
        print(text, end="")
        return
    if out.exists():
        raise UserError(f"--out {out} is there already; choose another name or delete it first")
    if not out.parent.is_dir():
        raise UserError(f"--out {out} cannot be written: {out.parent} is no folder; choose another place")
    atomic_write(out, text)
    tell(f"Wrote {out}. Change what you like, then: harken train {out} --out runs/{out.stem}")
