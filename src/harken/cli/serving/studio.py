"""`harken studio`: the web page for every model and training in a folder of runs."""

from __future__ import annotations

import threading
import webbrowser
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from harken.cli.common import examples
from harken.cli.messages import logger


@examples("harken studio runs --open", "harken studio runs/demo --port 8000")
def studio(
    runs: Annotated[Path, typer.Argument(metavar="RUNS_DIR", help="Folder of runs, or one model folder.")] = Path(
        "runs"
    ),
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 for all of this machine.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0: any that is free.")] = 5001,
    device: Annotated[str, typer.Option(help="Where models run: auto, cpu, cuda, cuda:1 ...")] = "auto",
    api_keys: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File of API keys, made by harken serve --new-key.")
    ] = None,
    no_keys: Annotated[
        bool, typer.Option("--no-keys", help="Serve everybody who reaches an address that is not this machine's own.")
    ] = False,
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
) -> None:
    """Open the studio: translate, look inside models, follow trainings and run the lab, in the browser."""
    from harken.serving.app import run
    from harken.serving.limits import hosts_of, require_keys
    from harken.serving.settings import ServerSettings
    from harken.studio.app import MAX_BODY, create_studio_app

    require_keys(host, api_keys, no_keys)
    settings = ServerSettings(device=device, api_keys=api_keys, allowed_hosts=hosts_of(host), max_body=MAX_BODY)
    app = create_studio_app(runs, settings)
    folders = app.state.library.folders()
    finished = len(app.state.library.models())
    logger.info(f"{len(folders)} run{'s' * (len(folders) != 1)} in {runs}, {finished} with a model")
    run(app, host, port, announce=announcer(open_page))


def announcer(open_page: bool) -> Callable[[str], None]:
    """Prints that the server is ready and, where asked, opens its page."""

    def announce(line: str) -> None:
        logger.info(line)
        if open_page:
            address = next(word for word in line.split() if word.startswith("http"))
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()

    return announce
