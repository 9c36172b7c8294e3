"""What each rung of a ladder gave and what it cost, as SVG or PNG: a row a rung, a panel a number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from harken.errors import UserError

if TYPE_CHECKING:
    from harken.lab.ladder import Result

ENDINGS = (".svg", ".png")
PANELS: tuple[tuple[str, Callable[[Result], float], str], ...] = (
    ("BLEU", lambda result: result.bleu, "{:.1f}"),
    ("training cost, FLOPs", lambda result: result.flops, "{:.1e}"),
    ("target tokens a second", lambda result: result.tokens_per_second, "{:,.0f}"),
    ("parameters", lambda result: float(result.parameters), "{:,.0f}"),
)


def save_picture(results: Sequence[Result], path: str | Path) -> Path:
    """Write the picture.

    Raises:
        UserError: an ending that is neither .svg nor .png.
    """
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from harken.lab.drawing import COLOURS, STYLE

    path = Path(path)
    if path.suffix.lower() not in ENDINGS:
        raise UserError(f"{path} ends in {path.suffix!r}; name the picture like ladder.svg or ladder.png")
    rows = range(len(results))
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(12, 1.4 + 0.34 * len(results)), layout="constrained")
        FigureCanvasAgg(figure)
        figure.suptitle(f"The same recipe up the ladder ({results[0].split})", x=0.01, ha="left", fontweight="bold")
        for number, (title, value_of, form) in enumerate(PANELS):
            axes = figure.add_subplot(1, len(PANELS), number + 1)
            values = [value_of(result) for result in results]
            bars = axes.barh(rows, values, height=0.62, color=COLOURS[0] if number == 0 else COLOURS[-1])
            axes.bar_label(bars, [form.format(value) for value in values], padding=3, fontsize=8)
            axes.set_xlim(0, 1.35 * max(values))  # room for the numbers
            axes.set_yticks(rows, [result.rung for result in results] if number == 0 else [""] * len(results))
            axes.invert_yaxis()  # the lowest rung first
            axes.set_title(title, loc="left", fontsize=10)
            axes.set_xticks([])
            axes.tick_params(length=0)
            axes.spines[["top", "right", "bottom"]].set_visible(False)
        figure.savefig(path, dpi=150)
    return path
