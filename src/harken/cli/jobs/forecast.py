"""`harken forecast`: the past of a series in, what comes out, as CSV, as JSON, or as a picture.

plain     step,date,forecast,q0.1,q0.9                  a row a step; several series have their names first
--json    {"series": ..., "forecast": [...], "quantiles": {"0.1": [...], ...}, "dates": [...]} a line each
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from harken.cli.common import MAX_COUNT, AsJson, ModelFolder, load_for, require_ending, tell
from harken.errors import UserError


def forecast(
    model: ModelFolder,
    file: Annotated[
        Path | None,
        typer.Argument(help="The past, with the columns of the training data (CSV, TSV, JSONL); else its own series."),
    ] = None,
    steps: Annotated[
        int | None, typer.Option(min=1, max=MAX_COUNT, help="How many; beyond the horizon they are fed back.")
    ] = None,
    series: Annotated[str | None, typer.Option(help="This series alone, where there are several.")] = None,
    test: Annotated[
        bool, typer.Option("--test", help="Without a file: start where the test part begins, to compare with it.")
    ] = False,
    end: Annotated[bool, typer.Option("--end", help="The default since 0.2.", hidden=True)] = False,
    out: Annotated[Path | None, typer.Option(help="Also write a picture: forecast.svg, .png or .html.")] = None,
    as_json: AsJson = False,
) -> None:
    """Forecast a series with its quantiles, after its last row.

    Rows of FILE that have no target yet may hold covariates known ahead.
    """
    require_ending(out)
    if file is not None and (end or test):
        option = "--test" if test else "--end"
        raise UserError(f"{option} is for the model's own series, but a file was given; keep one of them")
    if end and test:
        raise UserError("--end and --test were both given; keep one of them")
    forecaster = load_for("forecast", model)
    if file is None and not end and not test and forecaster.named_ahead:
        tell(
            "The covariates known ahead end with the data, so the held-out part is forecast (--test); for the future, "
            "give a file with rows that have covariates and no target"
        )
        test = True
    found = forecaster.forecast_all(None if file is None else str(file), steps=steps, at="test" if test else "end")
    if series is not None:
        named = [one for one in found if one.name == series]
        if not named:
            names = ", ".join(one.name for one in found[:8])
            raise UserError(f"--series {series} is not there; there are {names}")
        found = named
    for number, one in enumerate(found):
        if as_json:
            print(json.dumps(one.to_dict(), ensure_ascii=False))
        else:
            print(one.to_csv(header=number == 0, named=len(found) > 1), end="")
    picture = found[0].picture()
    if not as_json and sys.stdout.isatty():
        print(f"\n{picture.to_terminal()}")
    if out is not None:
        picture.save(out)
        tell(f"Wrote {out}" + (f", the first of {len(found)} series" if len(found) > 1 else ""))
