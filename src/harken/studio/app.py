"""The studio of a folder of runs (`harken studio runs`), and beside the API of a server (`harken serve --studio`)."""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter, FastAPI

from harken.errors import UserError
from harken.files import expand_user
from harken.serving.app import protect
from harken.serving.context import Admission, Serving
from harken.serving.limits import hosts_of
from harken.serving.metrics import Metrics
from harken.serving.settings import ServerSettings
from harken.studio.library import Library
from harken.studio.routes import create_studio

MAX_BODY = 20 * 2**20  # bytes of an uploaded file


def create_studio_app(root: str | Path, settings: ServerSettings | None = None) -> FastAPI:
    """An app with the page for every run below a folder, also for those that begin later.

    Args:
        root: the folder of runs, or one run.
        settings: how; default: for this machine alone.

    Raises:
        UserError: there is no such folder.
    """
    folder = expand_user(root)
    if not folder.is_dir():
        raise UserError(f"{folder} is no folder; name the folder that your runs are in, such as runs")
    settings = settings or ServerSettings(allowed_hosts=hosts_of("127.0.0.1"), max_body=MAX_BODY)
    app = FastAPI(title="harken studio", docs_url=None, redoc_url=None, openapi_url=None)
    app.state.library = Library(root=folder, device=settings.device)
    admission = Admission(settings, Metrics())
    app.include_router(create_studio(app.state.library, admission))
    return protect(app, settings, admission.metrics)


def serving_studio(serving: Serving) -> APIRouter:
    """The studio of the models of a server, an extension of `harken.serving.app.create_app`; it asks for their keys."""
    library = Library(serving.registry.folders, device=serving.settings.device)
    return create_studio(library, serving)
