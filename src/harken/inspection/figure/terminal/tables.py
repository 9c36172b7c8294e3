"""Tables of shades: words above their columns with the number in every cell, or narrow columns with words downwards.

A table with more columns than fit is drawn in parts, one below the other; at the end of each row of a narrow table its
largest cell is named. In a tree, a node without a choice continues its line, and a choice opens a line for each child.
"""

from __future__ import annotations

from rich.cells import cell_len
from rich.text import Text

from harken.inspection.figure.spec import Heat
from harken.inspection.figure.terminal.cells import TALLEST, cell
from harken.inspection.figure.text import cut, fill, letters, printable
from harken.inspection.figure.tree import Tree


def draw_heat(panel: Heat, width: int, color: bool) -> list[Text]:
    names = [
        ("● " if at in panel.marked else "  ") * bool(panel.mark_label) + name for at, name in enumerate(panel.rows)
    ]
    longest = max((cell_len(printable(name)) for name in names), default=0)
    label = max(1, min(longest, max(6, width // 2 if panel.mark_label else width // 4)))
    room, count = max(width - label - 2, 2), len(panel.columns)
    size = max((len(number_of(panel, r, c)) for r in range(len(names)) for c in range(count)), default=0)
    wide = [max(cell_len(printable(word)), size + 2 if panel.form else 3) for word in panel.columns]
    if sum(wide) + count - 1 <= room:
        drawn = _wide(panel, names, label, wide, color)
    else:
        parts = -(-2 * count // room)
        step = -(-count // parts)  # parts of equal width
        drawn = []
        for start in range(0, count, step):
            part = range(start, min(start + step, count))
            drawn += [Text()] if start else []
            drawn += _narrow(panel, names, label, part, room - 2 * len(part), color)
    return drawn + ([Text(cut(f"● {panel.mark_label}", width))] if panel.mark_label else [])


def _wide(panel: Heat, names: list[str], label: int, widths: list[int], color: bool) -> list[Text]:
    headings = (fill(word, width, "^" if color else "<") for word, width in zip(panel.columns, widths, strict=True))
    drawn, strengths = [Text(" " * (label + 2) + " ".join(headings))], panel.strengths()
    for row, name in enumerate(names):
        line = Text(fill(name, label) + "  ")
        for column, width in enumerate(widths):
            line.append(" " if column else "")
            line.append(*cell(float(strengths[row, column]), width, color, number_of(panel, row, column)))
        drawn.append(line)
    return drawn


def _narrow(panel: Heat, names: list[str], label: int, part: range, left: int, color: bool) -> list[Text]:
    """Two columns a word; in the `left` columns the largest cell of a row."""
    stacks = [letters(cut(panel.columns[at], TALLEST)) for at in part]
    height, drawn = max(map(len, stacks), default=0), []
    for level in range(height):
        signs = (stack[at] if (at := level - (height - len(stack))) >= 0 else "" for stack in stacks)
        drawn.append(Text(" " * (label + 2) + "".join(fill(sign, 2) for sign in signs)))
    strengths = panel.strengths()
    for row, name in enumerate(names):
        line = Text(fill(name, label) + "  ")
        for column in part:
            line.append(*cell(float(strengths[row, column]), 2, color))
        best = int(strengths[row].argmax())
        if left >= 12 and best in part and strengths[row, best] > 0 and panel.form:
            line.append(f"  {cut(panel.columns[best], left - 6)} {number_of(panel, row, best)}")
        drawn.append(line)
    return drawn


def number_of(panel: Heat, row: int, column: int) -> str:
    """`.87` for a weight: the zero before the point is left out."""
    number = panel.number(row, column)
    if panel.form != "{:.2f}" or not number:
        return number
    return number[:3] if number.startswith("1") else number.replace("0.", ".", 1)


def draw_tree(panel: Tree, width: int, color: bool) -> list[Text]:
    children, drawn = panel.children(), []

    def style(rank: int) -> str:
        return ("dim", "", "bold")[rank] if color else ""

    def grow(index: int, line: Text, below: str) -> None:
        """Write a node behind `line`; further children start lines of their own behind `below`."""
        node = panel.nodes[index]
        line.append(printable(node.label), style(node.rank))
        below_it = children[index]
        if not below_it:
            mark = "★ " if node.rank == 2 else ""
            line.append(
                f"  {mark}{node.value:.2f}{f' {node.note}' if node.note else ''}", "" if node.rank == 2 else style(0)
            )
            line.truncate(width, overflow="ellipsis")
            drawn.append(line)
            return
        inner = len(line.plain)
        for number, child in enumerate(below_it):
            last = number == len(below_it) - 1
            if number == 0:
                grow(
                    child,
                    line.append(" " if len(below_it) == 1 else " ┬ ", style(0)),
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
