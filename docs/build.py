"""The parts of the site that are made when it is built: a hook of mkdocs, named in mkdocs.yml.

- Reference pages are made from the code by docs/generate.
- Chapters of the course are run and become pages; CHAPTERS=off leaves their outputs out.
- Links that leave docs/ (to records, sources, the licence) lead to a copy of the file inside the site.

`pages()` gives the generated pages to the tests.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from posixpath import normpath, relpath
from typing import Any

DOCS = Path(__file__).parent
ROOT = DOCS.parent
LINK = re.compile(r"(\]\()([^)\s]+)(\))")
CODE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
COPIES = "repository"  # folder of the site with copies of files outside docs/


@cache
def pages() -> dict[str, str]:
    """The text of every generated page, by its path below docs/."""
    sys.path.insert(0, str(DOCS))  # the generators are no package of harken's
    from generate import commands, http, jobs, python, recipes

    makers: dict[str, Callable[[], str]] = {
        "reference/commands.md": commands.reference,
        "reference/recipes.md": recipes.reference,
        "reference/recipes-jobs.md": recipes.others,
        "reference/jobs.md": jobs.reference,
        "reference/python.md": python.python,
        "reference/nn.md": python.nn,
        "reference/http.md": http.reference,
    }
    return {name: make() for name, make in makers.items()}


def course(folder: Path | None) -> dict[str, str]:
    """The chapters as pages: with outputs and with pictures in a folder, or their texts and code alone."""
    from harken.learn import chapters

    def code(chapter: Any) -> str:
        cells = [cell.source if cell.is_text else f"```python\n{cell.source}\n```" for cell in chapter.cells]
        return "\n\n".join(cells) + "\n"

    return {
        f"learn/{chapter.path.stem}.md": code(chapter) if folder is None else chapter.to_markdown(folder)
        for chapter in chapters()
    }


def on_files(files: Any, *, config: Any) -> Any:
    """Add the generated pages, and copies of the files outside docs/ that pages link to."""
    from mkdocs.structure.files import File

    from harken.lab.pool import one_thread

    with tempfile.TemporaryDirectory() as folder, one_thread():  # a second one slows small networks down
        runs_chapters = os.environ.get("CHAPTERS") != "off"
        generated = pages() | course(Path(folder) if runs_chapters else None)
        for picture in sorted(Path(folder).iterdir()):
            files.append(File.generated(config, f"learn/{picture.name}", content=picture.read_bytes()))
    for name, text in generated.items():
        files.append(File.generated(config, name, content=text))
    texts = [
        (file.src_uri, (DOCS / file.src_uri).read_text("utf-8"))
        for file in files.documentation_pages()
        if file.abs_src_path
    ]
    for path in sorted({path for name, text in [*texts, *generated.items()] for path in outside(name, text)}):
        if (ROOT / path).is_file():
            files.append(File.generated(config, f"{COPIES}/{page_of(path)}", content=copy_of(path)))
    return files


def outside(name: str, text: str) -> set[str]:
    """The files outside docs/ that a page links to, by their paths from the root of the repository."""
    links = [
        link.partition("#")[0] for _, link, _ in LINK.findall(CODE.sub("", text)) if not re.match(r"[a-z]+:|#", link)
    ]
    paths = [normpath(f"docs/{name}/../{link}") for link in links if link]
    return {path for path in paths if not path.startswith(("docs/", "../"))}


def page_of(path: str) -> str:
    """What a copied file is called: texts become pages."""
    return path if path.endswith(".md") else f"{path}.md"


def copy_of(path: str) -> str:
    """A file of the repository as a page."""
    text = (ROOT / path).read_text(encoding="utf-8", errors="replace")
    if path.endswith(".md"):
        return text
    kind = {"py": "python", "json": "json", "jsonl": "json", "toml": "toml", "sh": "sh"}.get(
        path.rpartition(".")[2], "text"
    )
    fence = "`" * max(3, *(len(ticks) + 1 for ticks in re.findall("`+", text)), 3)
    return f"# {path}\n\n{fence}{kind}\n{text}\n{fence}\n"


def on_page_markdown(markdown: str, *, page: Any, files: Any, **_: Any) -> str:
    """Point links that leave docs/ at the copies; where a copy links to a file that the site lacks, nowhere."""
    name = page.file.src_uri
    is_copy = name.startswith(f"{COPIES}/")
    origin = name.removeprefix(f"{COPIES}/") if is_copy else f"docs/{name}"

    def point(found: re.Match[str]) -> str:
        before, link, after = found.groups()
        place, mark, anchor = link.partition("#")
        if re.match(r"[a-z]+:", link) or not place:
            return found[0]
        path = normpath(f"{origin}/../{place}")
        if re.fullmatch(r"docs/learn/[0-9]-[a-z-]+\.py", path):
            path = path.removesuffix(".py") + ".md"
        target = path.removeprefix("docs/") if path.startswith("docs/") else f"{COPIES}/{page_of(path)}"
        if files.get_file_from_path(target) is None:
            return f"{before}#{after}" if is_copy else found[0]
        return f"{before}{relpath(target, str(Path(name).parent))}{mark}{anchor}{after}"

    parts = re.split(f"({CODE.pattern})", markdown, flags=CODE.flags)
    return "".join(part if part.startswith("```") else LINK.sub(point, part) for part in parts)
