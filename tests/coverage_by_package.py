"""Coverage by package of src/harken, as a Markdown table, from the JSON report of coverage.py: `make coverage`.

The body of a compiled function (numba, Triton) is not run by Python, so its lines do not count as covered.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path, PurePath

TARGET = 85.0  # per cent


def package_of(path: str) -> str:
    """The package of a source file; the modules at the top count as one.

    >>> package_of("src/harken/nn/recurrent/lstm.py"), package_of("src/harken/api.py")
    ('nn', 'harken')
    """
    inside = PurePath(path).parts[PurePath(path).parts.index("harken") + 1 :]
    return inside[0] if len(inside) > 1 else "harken"


def table(report: dict[str, dict[str, dict[str, dict[str, int]]]]) -> list[str]:
    """Rows of the table, the least covered package first.

    >>> lines = {"num_statements": 8, "covered_lines": 6}
    >>> print(*table({"files": {"src/harken/nn/crf.py": {"summary": lines}}}), sep="\\n")
    | Package | Statements | Covered |
    | --- | --- | --- |
    | nn | 8 | 75.0% (below 85%) |
    | all | 8 | 75.0% (below 85%) |
    """
    statements, covered = Counter[str](), Counter[str]()
    for path, entry in report["files"].items():
        for package in (package_of(path), "all"):
            statements[package] += entry["summary"]["num_statements"]
            covered[package] += entry["summary"]["covered_lines"]
    shares = {package: 100 * covered[package] / count for package, count in statements.items() if count}
    rows = ["| Package | Statements | Covered |", "| --- | --- | --- |"]
    for package, share in sorted(shares.items(), key=lambda item: (item[0] == "all", item[1])):
        below = f" (below {TARGET:.0f}%)" if share < TARGET else ""
        rows.append(f"| {package} | {statements[package]:,} | {share:.1f}%{below} |")
    return rows


if __name__ == "__main__":
    print("\n".join(table(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))))
