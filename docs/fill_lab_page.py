"""Put what was found into docs/lab*.md: run `harken lab all --out DIR`, then `python docs/fill_lab_page.py DIR`.

Every NAME.json in the folder fills the block between `<!-- NAME -->` and `<!-- /NAME -->` with verdict, cost, table and
picture (copied to docs/images/lab); a claim no page has yet gets a section at the end of lab.md. The words around the
blocks are written by hand and stay.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

from harken.lab.registry import experiment_names
from harken.lab.report import cell_text

DOCS = Path(__file__).parent
ANSWER = {True: "holds", False: "does not hold", None: "holds in part"}


def block(found: dict[str, Any]) -> str:
    """What stands between the two comments."""
    rows = [[cell_text(float("nan") if cell is None else cell) for cell in row] for row in found["rows"]]
    lines = [found["columns"], ["---"] * len(found["columns"]), *rows]
    table = "\n".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |" for line in lines)
    day, seed = found["made"]["at"][:10], found["settings"]["seed"]
    cost = f"{found['cpu_seconds']:,.0f} CPU seconds, torch {found['made']['torch']}"
    name = found["name"]
    return (
        f"*{found['statement']}*\n\n**{ANSWER[found['holds']]}**: {found['verdict']}.\n\n"
        f"{table}\n\n![{name}](images/lab/{name}.svg)\n\n"
        f"`harken lab {name} --seed {seed}`, {day}, {cost}."
    )


def fill(page: str, found: dict[str, Any]) -> str:
    """The page with one block made anew, or with a new section."""
    name = found["name"]
    made = f"<!-- {name} -->\n{block(found)}\n<!-- /{name} -->"
    pattern = re.compile(rf"<!-- {re.escape(name)} -->.*?<!-- /{re.escape(name)} -->", re.DOTALL)
    if pattern.search(page):
        return pattern.sub(lambda _: made, page)
    return f"{page.rstrip()}\n\n### {name}\n\n{made}\n"


def main(folder: Path) -> None:
    """Fill the pages from every result in the folder."""
    pages = {path: path.read_text(encoding="utf-8") for path in sorted(DOCS.glob("lab*.md"))}
    results = [json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("*.json")]
    for found in sorted(results, key=lambda one: experiment_names().index(one["name"])):
        mine = (path for path, page in pages.items() if f"<!-- {found['name']} -->" in page)
        path = next(mine, DOCS / "lab.md")
        pages[path] = fill(pages[path], found)
        (DOCS / "images" / "lab").mkdir(parents=True, exist_ok=True)
        shutil.copyfile(folder / f"{found['name']}.svg", DOCS / "images" / "lab" / f"{found['name']}.svg")
    for path, page in pages.items():
        path.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
