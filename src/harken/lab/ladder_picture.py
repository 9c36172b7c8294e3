"""The results and the cost of each rung of a ladder: a row for each rung, a panel for each number; how each learned."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from harken.inspection.figure import Bars, Figure, Group, Lines, Series
from harken.inspection.pictures.picture import Picture

if TYPE_CHECKING:
    from harken.lab.ladder import Result

PANELS: tuple[tuple[str, Callable[[Result], float], str], ...] = (
    ("BLEU", lambda result: result.bleu, "{:.1f}"),
    ("training cost, FLOPs", lambda result: result.flops, "{:.1e}"),
    ("target tokens a second", lambda result: result.tokens_per_second, "{:,.0f}"),
    ("parameters", lambda result: float(result.parameters), "{:,.0f}"),
)


class LadderPicture(Picture):
    """The results of a ladder, the first rung on top."""

    caption = "A rung whose curve still rises at the end has not converged: compare it again with a larger budget."

    def __init__(self, results: Sequence[Result]) -> None:
        self.results = list(results)
        best = max(self.results, key=lambda result: result.bleu)
        self.title = f"The same recipe on every rung: {best.rung} has the highest BLEU, {best.bleu:.1f} ({best.split})"

    def figures(self) -> list[Figure]:
        names = [result.rung for result in self.results]
        panels = [
            Bars(
                title,
                "",
                "",
                names if not number else [""] * len(names),
                [Group("", [value_of(result) for result in self.results])],
                form=form,
                horizontal=True,
            )
            for number, (title, value_of, form) in enumerate(PANELS)
        ]
        return [Figure(self.title, panels), *self._curves()]

    def _curves(self) -> list[Figure]:
        series = [
            Series(
                result.rung,
                [row[0] for row in result.curve],
                [row[2] for row in result.curve],
                note=convergence(result),
            )
            for result in self.results
            if result.curve
        ]
        panel = Lines("", "updates", "BLEU on the validation set", series)
        return [Figure("Learning curves", [panel])] if series else []


def convergence(result: Result) -> str:
    """Whether a rung had converged, in a few words.

    >>> from harken.lab.ladder import Result
    >>> convergence(Result("", "", 0, 0, None, "", 0, 0, 0, 0, 3, "", [[1, 2, 8], [2, 1, 9], [3, 1, 9]]))
    'converged'
    """
    if result.converged is None:
        return ""
    if result.converged:
        return "converged"
    return f"not converged, {result.gain:+.1f} BLEU in the last quarter"
