"""Trees as lines of text: a node without a choice continues its line, a choice opens one line for each child."""

from __future__ import annotations

from rich.text import Text

from harken.inspection.figure.terminal.cells import draw
from harken.inspection.figure.text import printable
from harken.inspection.figure.tree import Tree


@draw.register
def _(panel: Tree, width: int, color: bool) -> list[Text]:
    children, drawn = panel.children(), []

    def style(rank: int) -> str:
        return ("dim", "", "bold")[rank] if color else ""

    def grow(index: int, line: Text, below: str) -> None:
        """Write a node behind `line`; further children start lines of their own behind `below`."""
        node = panel.nodes[index]
        line.append(printable(node.label), style(node.rank))
        some = children[index]
        if not some:
            mark = "★ " if node.rank == 2 else ""
            line.append(
                f"  {mark}{node.value:.2f}{f' {node.note}' if node.note else ''}", "" if node.rank == 2 else style(0)
            )
            line.truncate(width, overflow="ellipsis")
            drawn.append(line)
            return
        inner = len(line.plain)
        for number, child in enumerate(some):
            last = number == len(some) - 1
            if number == 0:
                grow(
                    child,
                    line.append(" " if len(some) == 1 else " ┬ ", style(0)),
                    below if last else _pad(below, inner) + " │ ",
                )
            else:
                start = _pad(below, inner) + (" └ " if last else " ├ ")
                grow(child, Text(start, style(0)), _pad(below, inner) + ("   " if last else " │ "))

    for root in children[-1]:
        grow(root, Text(""), "")
    return drawn


def _pad(text: str, width: int) -> str:
    return text + " " * (width - len(text))
