"""The native API of the jobs: a route for each, derived from its interface, and `/v1/predict` for all of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, File, Form, Request, UploadFile
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError
from starlette import datastructures

from harken.errors import UserError
from harken.serving.context import Serving, serving_of
from harken.serving.dialects.native import ERRORS, Caller, ResultsAnswer, results_of, server_sent, translate
from harken.serving.dialects.parameters import parameters_of
from harken.serving.dialects.schemas import TranslateBody, body_of, request_fields
from harken.serving.errors import ApiError, TooLong
from harken.serving.keys import Client
from harken.serving.registry import ServedModel
from harken.tasks.interface import Files, Interface
from harken.tasks.registry import JOBS, interface_of

OWN: dict[str, tuple[type[BaseModel], Callable[..., Any]]] = {"translate": (TranslateBody, translate)}  # not derived
Upload = Annotated[UploadFile, File(description="the file")]


@dataclass(frozen=True)
class Route:
    """The route of one job."""

    task: str
    interface: Interface
    body: type[BaseModel]

    async def answer(self, body: Any, request: Request, client: Client, item: dict[str, Any] | None = None) -> Any:
        """The results of a request; `item` is an uploaded file.

        Raises:
            ApiError: there is no such model, or the request asks for too much.
        """
        serving, interface = serving_of(request), self.interface
        try:
            items = [item] if item is not None else interface.input.items(body)
            if len(items) > serving.settings.max_texts:
                raise TooLong(f"send at most {serving.settings.max_texts:,} examples at a time")
            model = serving.registry.find(body.model, self.task)
            options = {name: getattr(body, name) for name in request_fields(interface.options)}
            interface.options(**options).check_request()
        except UserError as error:
            raise ApiError(400, str(error)) from None
        if getattr(body, "stream", False):
            if len(items) != 1:
                raise ApiError(400, "a stream has one text; leave out stream, or send one")
            return await server_sent(request, client, model, interface.verb, options, items[0], body.timeout)
        return await results_of(request, client, model, interface.verb, options, items, body)


def create_router(tasks: Iterable[str]) -> APIRouter:
    """The routes of all jobs that ship, and of those with the given tasks."""
    router = APIRouter(prefix="/v1", responses=ERRORS)
    for task in dict.fromkeys([*JOBS, *tasks]):
        interface = interface_of(task)
        if interface is None or task in OWN:
            continue
        route = Route(task, interface, body_of(interface))
        endpoint = upload_endpoint(route) if isinstance(interface.input, Files) else json_endpoint(route)
        router.post(f"/{interface.verb}", tags=["native"], response_model=ResultsAnswer)(endpoint)
    router.post("/predict", tags=["native"], response_model=ResultsAnswer, openapi_extra=ANY_BODY)(predict)
    return router


def json_endpoint(route: Route) -> Callable[..., Any]:
    """A route with a body of JSON."""

    async def endpoint(body: Any, request: Request, client: Any) -> Any:
        return await route.answer(body, request, client)

    return described(endpoint, route, {"body": route.body, "request": Request, "client": Caller}, {})


def upload_endpoint(route: Route) -> Callable[..., Any]:
    """A route with a file and fields of a form."""
    kinds: dict[str, Any] = {"request": Request, "client": Caller, "file": Upload}
    defaults = {}
    for name in ("model", *request_fields(route.interface.options)):
        field = route.body.model_fields[name]
        kinds[name] = Annotated[field.annotation, Form(description=field.description), *field.metadata]
        defaults[name] = field.default

    async def endpoint(request: Request, client: Any, file: UploadFile, **given: Any) -> Any:
        return await route.answer(route.body(**given), request, client, await item_of(file, route.interface))

    return described(endpoint, route, kinds, defaults)


async def item_of(file: datastructures.UploadFile, interface: Interface) -> dict[str, Any]:
    """An uploaded file as the item of a job that reads files."""
    return {"data": await file.read(), "name": file.filename or f"upload{interface.input.endings[0]}"}


def described(
    endpoint: Callable[..., Any], route: Route, kinds: dict[str, Any], defaults: dict[str, Any]
) -> Callable[..., Any]:
    """An endpoint with the name, the help and the parameters that FastAPI reads."""
    required, keyword = inspect.Parameter.empty, inspect.Parameter.KEYWORD_ONLY
    parameters = [
        inspect.Parameter(name, keyword, annotation=kind, default=defaults.get(name, required))
        for name, kind in kinds.items()
    ]
    endpoint.__name__, endpoint.__doc__ = route.interface.verb, route.interface.help
    endpoint.__annotations__ = kinds
    endpoint.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return endpoint


ANY_BODY = {
    "requestBody": {
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "properties": {"model": {"type": "string", "description": "name of the model; default: the first"}},
                    "example": {"model": "opinions", "text": "the film was not good"},
                }
            }
        }
    }
}


async def predict(request: Request, client: Caller) -> Any:
    """The results of a model of any job; the body is that of the route of its job, which `/v1/models` names."""
    serving, parameters = serving_of(request), await parameters_of(request)
    model = served_model(serving, parameters.text("model"))
    interface = interface_of(model.task)
    if interface is None:
        raise ApiError(400, f"the task {model.task!r} declares no interface, so its models answer no requests")
    body_class, own = OWN.get(model.task) or (body_of(interface), None)
    values = {name: value for name, value in parameters.values.items() if name != "file"}
    try:
        body = body_class.model_validate({**values, "model": model.name})
    except ValidationError as error:
        raise RequestValidationError(
            [{**problem, "loc": ("body", *problem["loc"])} for problem in error.errors()]
        ) from None
    if own is not None:
        return await own(body, request, client)
    item = None
    if isinstance(interface.input, Files):
        file = parameters.file("file")
        if file is None:
            raise ApiError(400, f"{model.name} reads files; send one as the field file of a form")
        item = await item_of(file, interface)
    return await Route(model.task, interface, body_class).answer(body, request, client, item)


def served_model(serving: Serving, name: str | None) -> ServedModel:
    """A model by its name, or the first.

    Raises:
        ApiError: there is no such model.
    """
    models = serving.registry.models
    if name is None:
        return next(iter(models.values()))
    if name not in models:
        raise ApiError(400, f"there is no model called {name!r}; choose from {', '.join(models)}")
    return models[name]
