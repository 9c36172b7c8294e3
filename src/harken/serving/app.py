"""`create_app`: the server as a FastAPI app; `run` puts it on a socket with uvicorn.

app = create_app(["runs/demo"], ServerSettings())
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.exceptions import HTTPException
from starlette.routing import Match

from harken.errors import UserError
from harken.machine import require_fork
from harken.serving.context import Serving
from harken.serving.dialects import deepl, deepl_documents, jobs, libretranslate, native
from harken.serving.documentation import documentation_page
from harken.serving.errors import ApiError, describe_internal_error, error_response
from harken.serving.fast_path import Endpoint, FastPath
from harken.serving.limits import Guard
from harken.serving.metrics import Metrics
from harken.serving.registry import Registry
from harken.serving.settings import ServerSettings

log = logging.getLogger("harken.serving")
ABOUT = """Models of harken behind HTTP: /v1 is the native API of every job; /translate, /detect, /languages ... are
the dialect of LibreTranslate, and /v2 is that of DeepL."""

Extension = Callable[[Serving], APIRouter]  # further routes of a server, such as `harken.studio.app.serving_studio`

FAST: dict[str, Endpoint] = {
    "/translate": libretranslate.translate,
    "/v2/translate": deepl.translate,
}


def create_app(
    models: Sequence[str | Path], settings: ServerSettings | None = None, extensions: Sequence[Extension] = ()
) -> FastAPI:
    """An app that serves model folders.

    Args:
        models: folders, each perhaps with its languages, as in "runs/demo@en-fr".
        settings: how; defaults to `ServerSettings()`.
        extensions: functions that give further routers; their routes come before those of the server's own pages.

    Raises:
        UserError: a folder is no model.
    """
    import harken

    settings = settings or ServerSettings()
    serving = Serving(Registry(models), settings)

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        try:
            await serving.engine.start()
        except UserError as error:
            app.state.problem = str(error)
            if app.state.stop is None:
                raise
            app.state.stop()  # `run` raises it again: here uvicorn would print a traceback
            yield
            return
        if app.state.stop is not None and serving.registry.translators():  # a server, and no test
            serving.prepare_detector()
        watcher = asyncio.create_task(_watch(serving)) if settings.reload_seconds else None
        try:
            yield
        finally:
            if watcher:
                watcher.cancel()
            await serving.engine.stop()
            serving.close()

    app = FastAPI(
        title="harken",
        version=str(harken.__version__),
        description=ABOUT,
        lifespan=lifespan,
        swagger_ui_oauth2_redirect_url=None,
        docs_url=None,
        redoc_url=None,
    )
    app.state.serving = serving
    routes = jobs.routes_of(model.task for model in serving.registry.models.values()).values()
    for router in routers(routes):
        app.include_router(router)
    for extension in extensions:
        app.include_router(extension(serving))
    add_pages(app, serving)
    app.add_middleware(FastPath, endpoints={**FAST, **jobs.fast_endpoints(routes)})
    return protect(app, settings, serving.metrics)


def routers(routes: Iterable[jobs.Route]) -> list[APIRouter]:
    """The routes of all dialects, with those of these operations of jobs."""
    return [native.router, jobs.create_router(routes), libretranslate.router, deepl.router, deepl_documents.router]


def protect(app: FastAPI, settings: ServerSettings, metrics: Metrics) -> FastAPI:
    """The app with the middleware and the errors of every server of harken, as `run` wants it.

    Raises:
        UserError: its workers cannot run on this system.
    """
    require_fork("serve models")
    app.state.settings, app.state.problem, app.state.stop = settings, None, None
    _add_errors(app)
    if settings.cors:
        from fastapi.middleware.cors import CORSMiddleware

        app.add_middleware(CORSMiddleware, allow_origins=settings.cors, allow_methods=["*"], allow_headers=["*"])
    app.add_middleware(Guard, settings=settings, metrics=metrics)
    return app


def add_pages(app: FastAPI, serving: Serving) -> None:
    """Pages about the server itself."""

    @app.get("/health", tags=["server"])
    async def health() -> Response:
        """Whether the server lives; where it does not, it should be started again."""
        return _status(serving.engine.is_live, serving.engine.problem or "the server does not run")

    @app.get("/ready", tags=["server"])
    async def ready() -> Response:
        """Whether every model can answer now; where not, requests should go elsewhere."""
        return _status(serving.engine.is_ready, serving.engine.problem or "no worker is ready")

    @app.get("/metrics", tags=["server"], response_class=PlainTextResponse)
    async def metrics() -> Response:
        """Counts and times in Prometheus' text format."""
        text = serving.metrics.text(serving.engine.batcher.waiting)
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4")

    @app.get("/", include_in_schema=False)
    async def index() -> Response:
        """The page of the API, where no extension has a page of its own."""
        return RedirectResponse("docs")

    @app.get("/spec", include_in_schema=False)
    async def spec() -> Response:
        """The OpenAPI description, where LibreTranslate has it."""
        return JSONResponse(app.openapi())

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        """The OpenAPI description as a page that loads nothing from elsewhere."""
        return HTMLResponse(documentation_page(app.openapi()))


def _status(is_fine: bool, problem: str) -> Response:
    return JSONResponse({"status": "ok"} if is_fine else {"status": "error", "error": problem}, 200 if is_fine else 503)


def _add_errors(app: FastAPI) -> None:
    """Errors in the form of the dialect that was spoken."""

    def answer(request: Request, status: int, message: str) -> Response:
        return error_response(request.url.path, ApiError(status, message))

    @app.exception_handler(ApiError)
    async def api_error(request: Request, error: ApiError) -> Response:
        return error_response(request.url.path, error)

    @app.exception_handler(UserError)
    async def user_error(request: Request, error: UserError) -> Response:
        return answer(request, 400, str(error))

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        location = ".".join(str(part) for part in first["loc"][1:])
        return answer(request, 422, f"{location}: {first['msg']}" if location else str(first["msg"]))

    @app.exception_handler(HTTPException)
    async def http_error(request: Request, error: HTTPException) -> Response:
        response = answer(request, error.status_code, str(error.detail))
        response.headers.update(error.headers or {})
        if error.status_code == 405:  # the router names the methods of the first route of this path alone
            response.headers["Allow"] = ", ".join(
                method
                for method in ("DELETE", "GET", "PATCH", "POST", "PUT")
                if any(route.matches({**request.scope, "method": method})[0] is Match.FULL for route in app.routes)
            )
        return response


async def _watch(serving: Serving) -> None:
    """Load models again whose folder has changed."""
    while True:
        await asyncio.sleep(serving.settings.reload_seconds)
        for model in await asyncio.to_thread(serving.registry.changed):
            log.info("%s has changed; it is loaded again", model.name)
            serving.engine.reload(model.name, model.folder)


def run(app: FastAPI, host: str, port: int, announce: Callable[[str], None] = print) -> None:
    """Serve until SIGINT or SIGTERM; what was accepted is finished first.

    Raises:
        UserError: the address cannot be used, or a model cannot be loaded.
    """
    import uvicorn

    from harken.serving.transport import HttpConfig

    settings: ServerSettings = app.state.settings
    _raise_file_limit()
    listening = listen(host, port)
    address, number = listening.getsockname()[:2]
    shown_host = f"[{address}]" if ":" in address else address

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            asyncio.get_running_loop().set_exception_handler(_log_loop_error)
            await super().startup(sockets)
            if not self.should_exit:
                announce(f"Ready on http://{shown_host}:{number} (Ctrl-C stops)")

    server = Server(HttpConfig(app, settings))
    app.state.stop = lambda: setattr(server, "should_exit", True)
    with listening:
        server.run(sockets=[listening])
    if app.state.problem is not None:
        raise UserError(app.state.problem)


def _log_loop_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log an error outside of all requests; what asyncio itself would log may carry a text of a request."""
    error = context.get("exception")
    if isinstance(error, ConnectionError):
        log.debug("a client left")
    else:
        log.error("%s", "internal error" if error is None else describe_internal_error(error))


def _raise_file_limit() -> None:
    """Every connection is an open file; use as many as this process may have."""
    import resource

    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def listen(host: str, port: int) -> socket.socket:
    """A socket bound before models are loaded, so that a port in use is told at once."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except (OSError, OverflowError) as error:
        listening.close()
        raise UserError(f"cannot listen on {host}:{port} ({error}); choose another --port or --host") from None
    return listening
