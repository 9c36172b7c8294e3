"""The HTTP API as a page, from the OpenAPI description that a server gives."""

from __future__ import annotations

from typing import Any

HEADER = """# HTTP API

```sh
harken serve runs/demo
curl -s http://127.0.0.1:5000/openapi.json
```

A server describes itself: `/openapi.json` for machines, `/docs` for people. This page has the routes of every job; a
server has those of the jobs that it serves. [Serving](../how-to/serve.md) has examples, errors and limits.
"""


def description() -> dict[str, Any]:
    """The OpenAPI description of a server of all jobs."""
    from fastapi import FastAPI

    from harken.registry import JOBS
    from harken.serving.app import add_pages, routers
    from harken.serving.dialects.jobs import routes_of

    app = FastAPI(title="harken")
    for router in routers(routes_of(JOBS).values()):
        app.include_router(router)
    add_pages(app, None)
    return app.openapi()


def reference() -> str:
    """The page."""
    from harken.serving.documentation import TITLES, fields_of_operation

    whole = description()
    groups: dict[str, list[str]] = {name: [] for name in TITLES}
    for path, methods in whole["paths"].items():
        for method, operation in methods.items():
            about = (operation.get("description") or operation.get("summary", "")).split("\n\n")[0]
            lines = [f"### {method.upper()} {path}", "", " ".join(about.split()), ""]
            rows = [
                "| "
                + " | ".join(cell.replace("|", r"\|").replace("<", "&lt;") for cell in (f"`{name}`", *cells))
                + " |"
                for name, *cells in fields_of_operation(operation, whole)
            ]
            if rows:
                lines += ["| field | type | default | meaning |", "| --- | --- | --- | --- |", *rows, ""]
            groups.setdefault((operation.get("tags") or ["server"])[0], []).append("\n".join(lines))
    return "\n".join([HEADER, *(f"## {TITLES[tag]}\n\n" + "\n".join(group) for tag, group in groups.items() if group)])
