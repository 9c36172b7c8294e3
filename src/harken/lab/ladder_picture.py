"""What each rung of a ladder gave and what it cost: a row for each rung, a panel for each number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from harken.inspection.figure import Bars, Figure, Group
from harken.inspection.picture import Picture

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
        return [Figure(self.title, panels)]
