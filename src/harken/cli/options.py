"""Arguments that several verbs share, said the same way everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

RecipeName = Annotated[str, typer.Argument(help="A recipe that ships (`harken recipes` lists them) or a TOML file.")]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="A.B=C", help="Change one value of the recipe; may be given many times."),
]
ModelFolder = Annotated[Path, typer.Argument(help="Model folder, as `harken train` made it.")]
Beam = Annotated[int | None, typer.Option(min=1, help="Live hypotheses; 1 is greedy search. Default: the recipe's.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
