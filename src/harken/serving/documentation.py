"""`/docs`: the OpenAPI description as one HTML page, without scripts and without anything from another host."""

from __future__ import annotations

import json
from collections.abc import Iterator
from html import escape
from typing import Any

STYLE = """body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1a1a1a;
background:#fff}code,pre{font:14px/1.4 ui-monospace,monospace}h2{margin-top:2.5rem;border-bottom:1px solid #ccc}
summary{cursor:pointer;padding:.35rem 0}summary b{display:inline-block;min-width:4.5rem}table{border-collapse:collapse;
margin:.5rem 0 1rem}td,th{border:1px solid #ccc;padding:.2rem .6rem;text-align:left;vertical-align:top}
@media (prefers-color-scheme:dark){body{color:#eee;background:#161616}td,th,h2{border-color:#555}a{color:#8cf}}"""
TITLES = {
    "native": "Native API",
    "libretranslate": "LibreTranslate's dialect",
    "deepl": "DeepL's dialect",
    "server": "The server",
}


def documentation_page(description: dict[str, Any]) -> str:
    """HTML of an OpenAPI description."""
    groups: dict[str, list[str]] = {name: [] for name in TITLES}
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            tag = (operation.get("tags") or ["server"])[0]
            groups.setdefault(tag, []).append(_operation(path, method, operation, description))
    info = description["info"]
    sections = "".join(
        f"<h2>{escape(TITLES.get(tag, tag))}</h2>{''.join(group)}" for tag, group in groups.items() if group
    )
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<title>{escape(info['title'])} API</title><style>{STYLE}</style><h1>{escape(info['title'])} API</h1>"
        f"<p>{escape(info.get('description', ''))}</p>"
        f"<p>Machine-readable: <a href=openapi.json>openapi.json</a></p>{sections}</html>"
    )


def _operation(path: str, method: str, operation: dict[str, Any], description: dict[str, Any]) -> str:
    about = escape(operation.get("description") or operation.get("summary", ""))
    rows = "".join(
        f"<tr><td><code>{escape(name)}</code></td><td>{escape(kind)}</td><td>{escape(default)}</td>"
        f"<td>{escape(text)}</td></tr>"
        for name, kind, default, text in fields_of_operation(operation, description)
    )
    table = f"<table><tr><th>field<th>type<th>default<th>meaning{rows}</table>" if rows else ""
    head = f"<b>{method.upper()}</b> <code>{escape(path)}</code> {about.splitlines()[0] if about else ''}"
    return f"<details><summary>{head}</summary>{table}</details>"


def fields_of_operation(operation: dict[str, Any], description: dict[str, Any]) -> Iterator[tuple[str, str, str, str]]:
    """Name, type, default and meaning of every parameter and field of the body."""
    for parameter in operation.get("parameters", []):
        schema = parameter.get("schema", {})
        yield parameter["name"], _kind(schema), _default(schema), parameter.get("description", "")
    for content in operation.get("requestBody", {}).get("content", {}).values():
        schema = _resolved(content.get("schema", {}), description)
        for name, field in schema.get("properties", {}).items():
            default = "required" if name in schema.get("required", []) else _default(field)
            yield name, _kind(field), default, field.get("description", "")
        return  # the other content types have the same fields


def _resolved(schema: dict[str, Any], description: dict[str, Any]) -> dict[str, Any]:
    name = schema.get("$ref", "").rpartition("/")[2]
    resolved: dict[str, Any] = description["components"]["schemas"][name] if name else schema
    return resolved


def _kind(schema: dict[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_kind(option) for option in schema["anyOf"] if option.get("type") != "null"))
    if "enum" in schema:
        return " or ".join(map(str, schema["enum"]))
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    return str(schema.get("type", "object"))


def _default(schema: dict[str, Any]) -> str:
    return json.dumps(schema["default"]) if schema.get("default") is not None else ""
