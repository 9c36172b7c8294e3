"""The studio of a folder of runs (`harken studio runs`), and beside the API of a server (`harken serve --studio`)."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace

from fastapi import APIRouter, FastAPI, Request
from starlette.middleware.trustedhost import TrustedHostMiddleware

from harken.errors import UserError
from harken.files import expand_user
from harken.serving.context import Serving
from harken.serving.settings import ServerSettings
from harken.studio.library import Library
from harken.studio.routes import create_studio

HOSTS = ["127.0.0.1", "localhost"]  # names under which a browser may ask a server of this machine alone


def create_studio_app(root: str | Path, device: str = "auto", loopback: bool = True) -> FastAPI:
    """An app with the page for every run below a folder, also for those that begin later.

    Args:
        root: the folder of runs, or one run.
        device: where models are loaded.
        loopback: answer only requests for this machine's own name, so that no web page can reach the studio through
            a name of its own.

    Raises:
        UserError: there is no such folder.
    """
    folder = expand_user(root)
    if not folder.is_dir():
        raise UserError(f"{folder} is no folder; name the folder that your runs are in, such as runs")

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.on_ready()
        yield

    app = FastAPI(title="harken studio", lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None)
    app.state.serving, app.state.problem = SimpleNamespace(settings=ServerSettings(device=device)), None
    app.state.on_ready = lambda: None
    app.state.library = Library(root=folder, device=device)
    app.include_router(create_studio(app.state.library))
    if loopback:
        app.add_middleware(TrustedHostMiddleware, allowed_hosts=HOSTS)
    return app


def serving_studio(serving: Serving) -> APIRouter:
    """The studio of the models of a server, an extension of `harken.serving.app.create_app`; it asks for their keys."""

    def check(request: Request) -> None:
        serving.caller(request)

    return create_studio(Library(serving.registry.folders, device=serving.settings.device), check)
