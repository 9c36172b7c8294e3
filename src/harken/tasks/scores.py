"""Results of `harken evaluate` for a model of any job: metrics with their intervals, and pictures."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from harken.errors import UserError
from harken.training.log import SIGNATURE

if TYPE_CHECKING:
    from harken.inspection.pictures.picture import Picture
    from harken.metrics.interval import Interval


def bleu_on_card(best: Mapping[str, Any]) -> str:
    r"""BLEU of the best validation with its signature, for the table of the card.

    >>> bleu_on_card({"bleu": 31.5, "bleu_signature": "nrefs:1|tok:char"})
    'BLEU 31.50 (nrefs:1\\|tok:char)'
    """
    signature = str(best.get(SIGNATURE, "")).replace("|", r"\|")  # a bar would end the table's cell
    return f"BLEU {best.get('bleu', math.nan):.2f}" + (f" ({signature})" if signature else "")


@dataclass(frozen=True)
class Metric:
    """One score of a test set."""

    name: str  # "accuracy", "perplexity" ...
    value: float
    low: float | None = None  # the 95% interval, where one is known
    high: float | None = None
    note: str = ""  # what it is, and which way is better where that is not plain
    digits: int = 3
    key: str | None = ""  # its name for programs; None: it is for people alone
    signed: bool = False  # whether it is shown with its sign
    lower_is_better: bool = False

    @classmethod
    def of(
        cls, name: str, interval: Interval, note: str = "", digits: int = 3, *, lower_is_better: bool = False
    ) -> Metric:
        """A metric with its interval (`harken.metrics.interval`)."""
        bounds = interval.value, interval.low, interval.high
        return cls(name, *bounds, note, digits, lower_is_better=lower_is_better)

    def row(self) -> tuple[str, str, str, str]:
        """The row of a table: name, value, interval, note."""
        between = "" if self.low is None else f"{self.low:.{self.digits}f} to {self.high:.{self.digits}f}"
        return self.name, f"{self.value:{'+' * self.signed}.{self.digits}f}", between, self.note


@dataclass
class Scores:
    """All metrics of one model on one test set, the most important first."""

    count: int  # how many ...
    unit: str  # ... "sentences", "windows", "series"
    metrics: list[Metric]
    pictures: dict[str, Picture] = field(default_factory=dict)  # name of a file without ending -> picture
    details: dict[str, Any] = field(default_factory=dict)  # more, for --json
    notes: list[str] = field(default_factory=list)  # sentences to show below the table: skipped rows ...
    seconds: float | None = None  # that the model took, where it was measured
    split: dict[str, str] = field(default_factory=dict)  # name, source and use, where it is one of the model's corpus
    outputs: tuple[list[Any], list[Any]] | None = None  # predictions and references, for metrics of the user's own
    sources: list[str] | None = None  # of the outputs, where they are texts

    def add(self, name: str, function: Callable[[list[Any], list[Any]], float]) -> None:
        """Add a metric of the user's own, `function(predictions, references)`.

        Raises:
            UserError: a job without predictions and references, or a function that gives no number.
        """
        if self.outputs is None:
            raise UserError(f"--metric {name} needs predictions and references, and this job has none to give")
        predictions, references = self.outputs
        value = function(list(predictions), list(references))
        try:
            self.metrics.append(Metric(name, float(value)))
        except (TypeError, ValueError):
            raise UserError(f"the metric {name} returned {value!r}; return one number") from None

    def __getitem__(self, name: str) -> float:
        return next(metric.value for metric in self.metrics if metric.name.lower() == name.lower())

    def to_dict(self) -> dict[str, Any]:
        """Convert the scores to values that JSON can hold."""
        content: dict[str, Any] = {self.unit: self.count}
        for metric in self.metrics:
            name = metric.name if metric.key == "" else metric.key
            if name is not None:
                content[name] = metric.value
                if metric.low is not None:
                    content[f"{name}_interval"] = [metric.low, metric.high]
        more = {"seconds": self.seconds, "split": self.split or None}
        return {**content, **self.details} | {name: value for name, value in more.items() if value is not None}
