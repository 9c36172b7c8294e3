"""The interface of forecasters: `harken forecast`, `POST /v1/forecast`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from harken.errors import UserError
from harken.tasks.interface import MAX_COUNT, Argument, CommandLine, Input, Interface, Option, Options, Reading


@dataclass(frozen=True)
class ForecastOptions(Options):
    """Options of `harken forecast`."""

    steps: Annotated[
        int | None, Option("how many; beyond the horizon they are fed back", ge=1, le=MAX_COUNT, served_le=1000)
    ] = None
    series: Annotated[str | None, Option("this series alone, where there are several")] = None
    test: Annotated[
        bool, Option("without a file: start where the test part begins, to compare with it", in_request=False)
    ] = False
    end: Annotated[bool, Option("the default since 0.2", in_request=False, is_hidden=True)] = False
    at: Annotated[
        Literal["end", "test"],
        Option("without a past: after the data, or at its held-out part", in_command=False),
    ] = "end"

    def check_command(self, command: CommandLine) -> None:
        if command.value is not None and (self.end or self.test):
            option = "--test" if self.test else "--end"
            raise UserError(f"{option} is for the model's own series, but a file was given; keep one of them")
        if self.end and self.test:
            raise UserError("--end and --test were both given; keep one of them")


@dataclass(frozen=True)
class PastRequest:
    """The past of a series."""

    past: Annotated[
        list[float] | dict[str, list[Any]] | None,
        Option("numbers, or a table by columns; default: the end of the training series"),
    ] = None
    covariates: Annotated[list[list[float]] | None, Option("(steps, covariates) that are known ahead")] = None


FILE = Argument(
    "file", Path | None, "The past, with the columns of the training data (CSV, TSV, JSONL); else its own series."
)


@dataclass(frozen=True)
class Pasts(Input):
    """The past of one or more series: a table, or the model's own data. An example is a `PastRequest`."""

    opens_files: ClassVar[bool] = True
    argument: Argument = FILE
    request: type = field(default=PastRequest, kw_only=True)

    def examples(self, job: Any, model: Any, items: Sequence[Mapping[str, Any]]) -> list[PastRequest]:
        return [PastRequest(item["past"], item["covariates"]) for item in items]

    def read(self, job: Any, model: Any, value: Any, reading: Reading, options: Any) -> Iterator[PastRequest]:
        yield PastRequest(None if value is None else str(value))  # type: ignore[arg-type]


INTERFACE = Interface(
    verb="forecast",
    help="Forecast a series with its quantiles, after its last row.\n\n"
    "Rows of FILE that have no target yet may hold covariates known ahead.",
    input=Pasts(example="series.csv", label="Series", endings=(".csv", ".tsv", ".parquet", ".json", ".jsonl")),
    options=ForecastOptions,
    examples=(
        "harken forecast runs/airline --out forecast.svg",
        "harken forecast runs/airline past.csv --steps 12 --json",
    ),
    unit="series",
    figure="forecast",
)
