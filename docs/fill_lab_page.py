"""Write the results of `harken lab` into docs/benchmarks/lab*.md.

    harken lab all --out DIR
    python docs/fill_lab_page.py DIR

Every NAME.json in the folder replaces the block between `<!-- NAME -->` and `<!-- /NAME -->`: claim, verdict, table,
figure (copied to docs/images/lab) and the command. An experiment without a block gets a section at the end of lab.md.
The text around the blocks is written by hand and is not changed.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

from harken.lab.registry import experiment_names, find_experiment
from harken.lab.report import cell_text

DOCS = Path(__file__).parent
VERDICT = {True: "Holds", False: "Does not hold", None: "Holds in part"}


def block(found: dict[str, Any]) -> str:
    """The text between the two comments."""
    rows = [[cell_text(float("nan") if cell is None else cell) for cell in row] for row in found["rows"]]
    lines = [found["columns"], ["---"] * len(found["columns"]), *rows]
    table = "\n".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |" for line in lines)
    day, seed = found["made"]["at"][:10], found["settings"]["seed"]
    name, verdict = found["name"], found["verdict"][:1].upper() + found["verdict"][1:]
    explanation = f"{found['explanation']}\n\n" if found.get("explanation") else ""
    return (
        f"*{found['statement']}*\n\n{parts(name)}\n\n**{VERDICT[found['holds']]}.** {verdict}.\n\n"
        f"{table}\n\n{explanation}![{name}](../images/lab/{name}.svg)\n\n"
        f"`harken lab {name} --seed {seed}`, {day}, torch {found['made']['torch']}."
    )


def parts(name: str) -> str:
    """What a claim rests on, and how its rule was changed, as a list."""
    experiment = find_experiment(name)
    lines = [f"- {part.kind}: {part.statement}" for part in experiment.parts]
    return "\n".join([*lines, *(f"- rule changed, {change}" for change in experiment.changes)])


def fill(page: str, found: dict[str, Any]) -> str:
    """The page with one block replaced, or with a new section."""
    name = found["name"]
    text = f"<!-- {name} -->\n{block(found)}\n<!-- /{name} -->"
    pattern = re.compile(rf"<!-- {re.escape(name)} -->.*?<!-- /{re.escape(name)} -->", re.DOTALL)
    if pattern.search(page):
        return pattern.sub(lambda _: text, page)
    return f"{page.rstrip()}\n\n## {name}\n\n{text}\n"


def main(folder: Path) -> None:
    """Update the pages from every result in the folder."""
    pages = {path: path.read_text(encoding="utf-8") for path in sorted((DOCS / "benchmarks").glob("lab*.md"))}
    results = [json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("*.json")]
    for found in sorted(results, key=lambda result: experiment_names().index(result["name"])):
        holding = (path for path, page in pages.items() if f"<!-- {found['name']} -->" in page)
        path = next(holding, DOCS / "benchmarks" / "lab.md")
        pages[path] = fill(pages[path], found)
        (DOCS / "images" / "lab").mkdir(parents=True, exist_ok=True)
        shutil.copyfile(folder / f"{found['name']}.svg", DOCS / "images" / "lab" / f"{found['name']}.svg")
    for path, page in pages.items():
        path.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
