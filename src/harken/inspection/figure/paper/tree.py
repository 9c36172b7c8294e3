"""Trees, drawn by matplotlib."""

from __future__ import annotations

from matplotlib.axes import Axes

from harken.inspection.figure.paper.panels import INK, LINE, MUTED, TEXT, Hint, Measure, Size, draw
from harken.inspection.figure.text import cut, printable
from harken.inspection.figure.tree import Tree

LONGEST, LANE = 14, 0.3  # characters of a label; inches between lines


@draw.register
def _(panel: Tree, axes: Axes, measure: Measure, count: int) -> tuple[Size, list[Hint]]:
    """Depth across, a line for each leaf; the highlighted path in ink, what was given up pale."""
    depths, lanes = panel.depths(), panel.lanes()
    labels = [cut(printable(node.label), LONGEST) for node in panel.nodes]
    levels = max(depths, default=0) + 1
    widths = [
        max((measure(label, 9.5) for label, at in zip(labels, depths, strict=True) if at == level), default=0.3) + 0.34
        for level in range(levels)
    ]
    bold = [1.1 if node.rank == 2 else 1.0 for node in panel.nodes]  # bold letters are wider
    starts = [sum(widths[:level]) for level in range(levels + 1)]
    colours, hints, right = (LINE, MUTED, INK), [], starts[-1]
    order = sorted(range(len(panel.nodes)), key=lambda index: panel.nodes[index].rank)
    parents = {node.parent for node in panel.nodes}
    for index in order:
        node, depth, y = panel.nodes[index], depths[index], lanes[index] * LANE
        x, wide = starts[depth], measure(labels[index], 9.5) * bold[index]
        if node.parent >= 0:
            end = (
                starts[depth - 1] + measure(labels[node.parent], 9.5) * bold[node.parent] + 0.05,
                lanes[node.parent] * LANE,
            )
            middle = x - 0.17
            line = 1.8 if node.rank == 2 else 0.9
            axes.plot(
                [end[0], middle, middle, x - 0.05], [end[1], end[1], y, y], color=colours[node.rank], linewidth=line
            )
        look = TEXT if node.rank else MUTED
        weight = "bold" if node.rank == 2 else "normal"
        axes.text(x, y, labels[index], fontsize=9.5, color=look, fontweight=weight, va="center")
        hints.append(
            (axes, x, y - 0.1, x + wide, y + 0.1, f"{node.label}: {panel.value_label} {node.value:.3f} {node.note}")
        )
        if index not in parents:
            note = f"{node.value:.2f} {printable(node.note)}".strip()
            axes.text(x + wide + 0.12, y, note, fontsize=8, color=MUTED, va="center")
            right = max(right, x + wide + 0.12 + measure(note, 8))
    bottom = (max(lanes, default=0.0) + 0.6) * LANE
    axes.set(xlim=(-0.05, right + 0.1), ylim=(bottom, -0.6 * LANE))
    axes.axis("off")
    return (right + 0.15, bottom + 0.6 * LANE), hints
