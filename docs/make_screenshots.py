"""Photograph the studio for the documentation: `python docs/make_screenshots.py RUNS_DIR [NAME ...]`.

RUNS_DIR holds the model of `harken demo`, called demo, and recurrent translators called attention and rnn (without
attention), trained on the phrasebook. Pictures are written to docs/images/studio.
Needs playwright and Debian's chromium.
"""

from __future__ import annotations

import argparse
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

IMAGES = Path(__file__).resolve().parent / "images" / "studio"
CHROMIUM = "/usr/bin/chromium"
WAIT = 60_000  # milliseconds


@dataclass(frozen=True)
class Shot:
    """One picture: an address, what is done there, and how the page is shown."""

    address: str
    ready: str  # a selector that is there when the view is
    act: Callable[[Any], None] = lambda page: None
    width: int = 1180
    height: int = 700
    dark: bool = False


def open_alternatives(page: Any) -> None:
    """Other ways to go on from the fifth word."""
    page.locator(".words.target .word").nth(4).click()
    page.wait_for_selector(".options button")


def switch_off(page: Any) -> None:
    """The word red and the first head of the upper layer."""
    page.locator(".words.source .word").nth(6).click()
    page.wait_for_selector(".changed")
    page.mouse.move(5, 5)


def point(page: Any) -> None:
    """The links of a word."""
    page.locator(".words.target .word").nth(3).hover()


DRESS = "Where+did+you+buy+that+beautiful+red+dress%3F"
CAT = "the+black+cat+does+not+see+the+small+dog"
SHOTS = {
    "translate": Shot(f"translate?model=demo&text={DRESS}", ".words.target .word", open_alternatives),
    "translate-phone": Shot(f"translate?model=demo&text={DRESS}", ".words.target .word", point, 390, 844, True),
    "inside": Shot(f"inside?model=demo&text={DRESS}", ".headgrid", switch_off, height=900),
    "gates": Shot(f"inside?part=gates&model=attention&text={CAT}", ".heat", dark=True, height=860),
    "search": Shot("search?model=demo&text=Where+do+you+live%3F&beam=4", ".tree g"),
    "compare": Shot("compare?modela=rnn&modelb=attention", ".words.target .word", height=860),
    "train": Shot("train", ".chart path", dark=True, height=820),
    "lab": Shot("lab?claim=vanishing&s=1.1&network=random+inputs", ".chart path", height=760),
}


@contextmanager
def studio(runs: Path) -> Iterator[str]:
    """The address of a studio that runs as long as the block."""
    import uvicorn

    from harken.studio.app import create_studio_app

    server = uvicorn.Server(uvicorn.Config(create_studio_app(runs), port=0, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.05)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join(10)


def main() -> None:
    """Take every picture, or those that are named."""
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path)
    parser.add_argument("names", nargs="*", choices=[[], *SHOTS], metavar="NAME")
    parser.add_argument("--out", type=Path, default=IMAGES)
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with studio(asked.runs) as address, sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=arguments)
        for name in asked.names or SHOTS:
            shot = SHOTS[name]
            page = browser.new_page(
                viewport={"width": shot.width, "height": shot.height},
                color_scheme="dark" if shot.dark else "light",
                reduced_motion="reduce",
            )
            page.set_default_timeout(WAIT)
            page.goto(f"{address}/#{shot.address}")
            page.wait_for_selector(shot.ready)
            page.wait_for_timeout(1500)
            shot.act(page)
            page.wait_for_timeout(600)
            page.screenshot(path=asked.out / f"{name}.png")
            page.close()
            print(f"wrote {asked.out / name}.png")
        browser.close()


if __name__ == "__main__":
    main()
