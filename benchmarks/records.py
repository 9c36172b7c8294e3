"""The dated record of a benchmark: JSON for programs, Markdown for people, same name, in benchmarks/records/.

>>> print(table(["tool", "tokens/s"], [["harken", 2711], ["eole", 1946]]))
| tool | tokens/s |
| --- | --- |
| harken | 2711 |
| eole | 1946 |
"""

import json
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RECORDS = ROOT / "benchmarks" / "records"
FLAGS = {"avx2", "avx512f", "avx512_bf16", "avx512_vnni", "amx_bf16"}


def processor() -> dict[str, Any]:
    """The CPU: its model, the cores this run may use, and the instruction sets that decide its speed."""
    text = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    lines = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    fields = {key.strip(): value.strip() for key, value in lines.items()}
    return {
        "model": fields.get("model name", platform.processor()),
        "cores_used": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "flags": sorted(FLAGS & set(fields.get("flags", "").split())),
    }


def machine(*packages: str) -> dict[str, Any]:
    """When, by which command, at which commit, on what, and with which versions something was measured."""
    git = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    facts: dict[str, Any] = {
        "date": f"{datetime.now():%Y-%m-%d %H:%M}",
        "command": shlex.join(["python", os.path.relpath(sys.argv[0]), *sys.argv[1:]]),
        "commit": subprocess.run(git, capture_output=True, text=True).stdout.strip(),
        "processor": processor(),
        "load": os.getloadavg()[0],
        "versions": {"python": platform.python_version()},
    }
    for name in ("harken", "torch", *packages):
        try:
            facts["versions"][name] = version(name)
        except PackageNotFoundError:
            continue
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        facts["gpu"] = torch.cuda.get_device_name()
    return facts


def facts_of(record: Mapping[str, Any]) -> str:
    """What `machine` knows, as a list in Markdown and the command below it."""
    cpu = record["processor"]
    lines = [
        f"CPU: {cpu['model']} ({', '.join(cpu['flags'])}), {cpu['cores_used']} cores.",
        f"{', '.join(f'{name} {number}' for name, number in record['versions'].items())}; commit {record['commit']}.",
    ]
    return "\n".join(f"- {line}" for line in lines) + f"\n\n```sh\n{record['command']}\n```\n"


def portable(text: str, folders: Mapping[str, Path]) -> str:
    """The text with this machine's folders replaced by their names, the longest path first."""
    for name, path in sorted(folders.items(), key=lambda item: -len(str(item[1]))):
        text = text.replace(str(path), name)
    return text


def table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def rows_table(rows: Sequence[Mapping[str, Any]], heads: Sequence[str] = ()) -> str:
    """A Markdown table of rows by name; a row without a column has a dash there."""
    heads = heads or list(dict.fromkeys(key for row in rows for key in row))
    return table(heads, [[row.get(head, "-") for head in heads] for row in rows])


def write(name: str, record: Mapping[str, Any], page: str = "", folder: Path = RECORDS, **folders: Path) -> Path:
    """DATE-NAME.json, and with a page DATE-NAME.md; the given folders are written by their names."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{datetime.now():%Y-%m-%d-%H%M}-{name}.json"
    path.write_text(portable(json.dumps(record, indent=1, default=str), folders) + "\n", encoding="utf-8")
    if page:
        path.with_suffix(".md").write_text(portable(page, folders), encoding="utf-8")
    print(f"wrote {os.path.relpath(path)}")
    return path
