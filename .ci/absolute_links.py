"""Make the links of README.md absolute and add the project's addresses to pyproject.toml, before a release is built.

    python .ci/absolute_links.py https://HOST/OWNER/harken v0.2.0

The page of a package index cannot follow links into a checkout. The address of the repository is not part of the
sources, which may be hosted anywhere; the release workflow gives its own.
"""

import re
import sys
from pathlib import Path

LINK = re.compile(r"(!?)(\[[^\]]*\]\()(?!https?://|#|mailto:)([^)\s]+)(\))")


def absolute(text: str, repository: str, tag: str) -> str:
    """Markdown whose relative links and pictures point into the repository at a tag."""

    def point(found: re.Match[str]) -> str:
        is_picture, before, path, after = found.groups()
        return f"{is_picture}{before}{repository}/{'raw' if is_picture else 'blob'}/{tag}/{path}{after}"

    return LINK.sub(point, text)


def urls(repository: str, tag: str) -> str:
    """The table `[project.urls]`."""
    places = {
        "Homepage": "",
        "Documentation": f"/blob/{tag}/docs/index.md",
        "Changelog": f"/blob/{tag}/CHANGELOG.md",
        "Issues": "/issues",
    }
    return "\n".join(["[project.urls]", *(f'{name} = "{repository}{path}"' for name, path in places.items())]) + "\n\n"


def main(repository: str, tag: str) -> None:
    root = Path(__file__).parents[1]
    readme, project = root / "README.md", root / "pyproject.toml"
    readme.write_text(absolute(readme.read_text(encoding="utf-8"), repository, tag), encoding="utf-8")
    text, table = project.read_text(encoding="utf-8"), "[project.scripts]\n"
    project.write_text(text.replace(table, urls(repository, tag) + table), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1].rstrip("/"), sys.argv[2])
