"""`harken recipes`: what ships, and a file to start from."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated

import typer

from harken.cli.common import AsJson, complete_recipe, examples, print_json, print_table
from harken.cli.messages import logger
from harken.errors import UserError
from harken.files import atomic_write


@examples("harken recipes", "harken recipes phrasebook-transformer --out my.toml      (a file to start from)")
def recipes(
    name: Annotated[str | None, typer.Argument(help="Print this recipe.", autocompletion=complete_recipe)] = None,
    out: Annotated[Path | None, typer.Option(help="Write it to this file instead, to change and train.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the recipes that ship, or print one."""
    from harken.recipe import describe, recipe_names, recipe_text

    if name is None:
        if out is not None:
            raise UserError("--out needs a recipe's name, such as: harken recipes phrasebook-transformer --out my.toml")
        known = {name: describe(name) for name in recipe_names()}
        if as_json:
            print_json([{"name": name, "trains": trains} for name, trains in known.items()])
        else:
            print_table(("recipe", "what it trains"), list(known.items()))
        return
    text = recipe_text(name)
    if out is None and as_json:
        print_json(tomllib.loads(text))
        return
    if out is None:
        print(text, end="")
        return
    if out.exists():
        raise UserError(f"--out {out} is there already; choose another name or delete it first")
    if not out.parent.is_dir():
        raise UserError(f"--out {out} cannot be written: {out.parent} is no folder; choose another place")
    atomic_write(out, text)
    logger.info(f"Wrote {out}. Change what you like, then: harken train {out} --out runs/{out.stem}")
