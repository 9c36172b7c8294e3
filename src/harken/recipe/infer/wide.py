"""Tables with an example or a series a row: numbers from left to right in the order of time."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator

from harken.data.io.table import is_number, table_rows
from harken.data.series.dates import read_date
from harken.data.series.series import SERIES, VALUE, steps_of_rows
from harken.recipe.infer.columns import Column, Table, format_facts, format_labels, length_facts
from harken.recipe.infer.inferred import Conversion, Inferred

SHORTEST_ROW = 9  # cells of a row that holds a signal or a series


def signals_in_rows(table: Table) -> Inferred | None:
    """A signal a row, as UCR has them: a label, then numbers."""
    if table.has_header or len(table.names) < SHORTEST_ROW:
        return None
    first, last = (Column(table.names[index], [row[index] for row in table.rows[:500]]) for index in (0, -1))
    rows = table.rows[:50]
    if not first.is_label or last.is_label or not all(is_number(cell) for row in rows for cell in row if cell.strip()):
        return None
    data = {"kind": "signal", "format": "ucr", "train": table.path}
    steps = format_facts(length_facts([sum(bool(cell.strip()) for cell in row) - 1 for row in table.rows]))
    facts = {
        "signals": f"{len(table.rows):,}{' looked at' * table.is_cut}; steps: {steps}",
        "labels": format_labels(dict(Counter(row[0] for row in table.rows).most_common())),
    }
    reason = f"a signal a row after one of {first.distinct} labels"
    return Inferred("classify", reason, data, facts=lambda: facts)


def series_in_rows(table: Table) -> Inferred | None:
    """A series a row, as M4 has them: its name, then numbers up to its end."""
    steps = {re.sub(r"\d+$", "", name) for name in table.names[1:] if not read_date(name)}
    if len(table.names) < SHORTEST_ROW or (table.has_header and len(steps) > 1):
        return None  # columns V2, V3 ... or dates are steps; others are features
    names, rows = [row[0] for row in table.rows], table.rows[:50]
    if len(set(names)) < len(names) or any(is_number(name) or read_date(name) for name in names[:50]):
        return None
    if not all(row[1].strip() and all(is_number(cell) for cell in row[1:] if cell.strip()) for row in rows):
        return None
    counts = [sum(bool(cell.strip()) for cell in row) - 1 for row in table.rows]
    count = min(counts)

    def lines() -> Iterator[str]:
        _, every = table_rows(table.path, header=table.has_header, encoding=table.encoding)
        for name, cell in steps_of_rows(every):
            value = float(cell) if str(cell).strip() else None
            yield json.dumps({SERIES: name, VALUE: value}, ensure_ascii=False)

    horizon = max(1, min(6, count // 10))
    data = {"target_column": VALUE, "group": SERIES, "date_column": "none", "season": 1, "horizon": horizon}
    data |= {"window": max(2, min(36, count // 4))}
    if any(float(cell) <= 0 for row in table.rows for cell in row[1:] if cell.strip() and is_number(cell)):
        data["transform"] = "none"
    facts = {"series": f"{len(counts):,}; steps: {format_facts(length_facts(counts))}"}
    return Inferred("forecast", "a series a row", data, {}, {"train": Conversion(".jsonl", lines)}, facts=lambda: facts)
