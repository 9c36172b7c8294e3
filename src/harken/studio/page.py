"""The files of the page, with the headers they are served with.

Everything comes from this host: the policy allows no other origin, no inline script and no inline style.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

STATIC = Path(__file__).parent / "static"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; media-src blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache",
}


def static_names() -> list[str]:
    """Every file of the page, as its path below `static`."""
    return sorted(path.relative_to(STATIC).as_posix() for path in STATIC.rglob("*") if path.suffix in TYPES)


@cache
def static_file(name: str) -> tuple[bytes, dict[str, str]] | None:
    """Content and headers of a file of the page; None where there is none of this name."""
    if name not in static_names():
        return None
    content = (STATIC / name).read_bytes()
    tag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
    return content, {**HEADERS, "Content-Type": TYPES[Path(name).suffix], "ETag": tag}
