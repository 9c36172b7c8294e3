"""The native API of the jobs: a route for each operation, derived from its declaration, and `/v1/predict` for all."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, File, Form, Request, Response, UploadFile
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError
from starlette import datastructures

from harken.errors import UserError
from harken.serving.context import Serving, serving_of
from harken.serving.dialects.native import (
    ERRORS,
    Caller,
    ResultsAnswer,
    any_model,
    caller,
    items_of,
    results_of,
    server_sent,
    translate,
)
from harken.serving.dialects.parameters import parameters_of
from harken.serving.dialects.schemas import body_of, request_fields, search_of
from harken.serving.errors import ApiError
from harken.serving.keys import Client
from harken.serving.operations import operations_of
from harken.serving.registry import ServedModel
from harken.tasks.interface import Files, Interface, Operation
from harken.tasks.registry import JOBS, interface_of

Upload = Annotated[UploadFile, File(description="the file")]


@dataclass(frozen=True)
class Route:
    """The route of one operation."""

    operation: Operation
    task: str  # the first that has it

    @property
    def body(self) -> type[BaseModel]:
        """The class of its requests."""
        return body_of(self.operation)

    async def answer(self, body: Any, request: Request, client: Client, item: dict[str, Any] | None = None) -> Any:
        """The results of a request; `item` is an uploaded file.

        Raises:
            ApiError: there is no such model, or the request asks for too much.
        """
        serving, operation = serving_of(request), self.operation
        if (texts := getattr(body, "text", None)) is not None:  # before items are made of them, in the event loop
            serving.check_texts([texts] if isinstance(texts, str) else texts)
        if isinstance(operation, Interface) and operation.has_languages:
            return await translate(operation, self.task, body, request, client)
        items = [item] if item is not None else items_of(operation.input, body)
        options = {name: getattr(body, name) for name in request_fields(operation.options)}
        try:
            if isinstance(operation, Interface):
                model = serving.registry.find(body.model, self.task)
            else:
                model = any_model(serving, body.model, operation.verb)
            operation.options(**options).check_request()
        except UserError as error:
            raise ApiError(400, str(error)) from None
        if operation.takes_search:
            options["search"] = search_of(body)
        if getattr(body, "stream", False):
            if len(items) != 1:
                raise ApiError(400, "a stream has one text; leave out stream, or send one")
            return await server_sent(request, client, model, operation.verb, options, items[0], body.timeout)
        return await results_of(request, client, model, operation.verb, options, items, body)

    async def answer_directly(self, request: Request) -> Response | None:
        """`answer` without FastAPI, for bodies that are valid JSON of it; None for others."""
        if not request.headers.get("content-type", "").startswith("application/json"):
            return None
        try:
            body = self.body.model_validate_json(await request.body())
        except ValidationError:
            return None
        response: Response = await self.answer(body, request, await caller(request))
        return response


def routes_of(tasks: Iterable[str]) -> dict[str, Route]:
    """The routes of all jobs that ship, and of those with the given tasks, by the names of their operations.

    Raises:
        UserError: two jobs declare different operations under one name.
    """
    routes: dict[str, Route] = {}
    for task in dict.fromkeys([*JOBS, *tasks]):
        for verb, operation in operations_of(task).items():
            known = routes.setdefault(verb, Route(operation, task))
            if known.operation != operation:
                raise UserError(
                    f"the jobs {known.task!r} and {task!r} declare different operations named {verb!r}; rename one"
                )
    return routes


def create_router(routes: Iterable[Route]) -> APIRouter:
    """The routes, and `/v1/predict`."""
    router = APIRouter(prefix="/v1", responses=ERRORS)
    for route in routes:
        endpoint = upload_endpoint(route) if isinstance(route.operation.input, Files) else json_endpoint(route)
        router.post(f"/{route.operation.verb}", tags=["native"], response_model=ResultsAnswer)(endpoint)
    router.post("/predict", tags=["native"], response_model=ResultsAnswer, openapi_extra=ANY_BODY)(predict)
    return router


def fast_endpoints(routes: Iterable[Route]) -> dict[str, Callable[[Request], Any]]:
    """The endpoints that the fast path takes: translations, of which there are many with short texts."""
    return {
        f"/v1/{route.operation.verb}": route.answer_directly
        for route in routes
        if isinstance(route.operation, Interface) and route.operation.has_languages
    }


def json_endpoint(route: Route) -> Callable[..., Any]:
    """A route with a body of JSON."""

    async def endpoint(body: Any, request: Request, client: Any) -> Any:
        return await route.answer(body, request, client)

    return described(endpoint, route, {"body": route.body, "request": Request, "client": Caller}, {})


def upload_endpoint(route: Route) -> Callable[..., Any]:
    """A route with a file and fields of a form."""
    kinds: dict[str, Any] = {"request": Request, "client": Caller, "file": Upload}
    defaults = {}
    for name in ("model", *request_fields(route.operation.options)):
        field = route.body.model_fields[name]
        kinds[name] = Annotated[field.annotation, Form(description=field.description), *field.metadata]
        defaults[name] = field.default

    async def endpoint(request: Request, client: Any, file: UploadFile, **given: Any) -> Any:
        return await route.answer(route.body(**given), request, client, await item_of(file, route.operation))

    return described(endpoint, route, kinds, defaults)


async def item_of(file: datastructures.UploadFile, operation: Operation) -> dict[str, Any]:
    """An uploaded file as the item of a job that reads files."""
    return {"data": await file.read(), "name": file.filename or f"upload{operation.input.endings[0]}"}


def described(
    endpoint: Callable[..., Any], route: Route, kinds: dict[str, Any], defaults: dict[str, Any]
) -> Callable[..., Any]:
    """An endpoint with the name, the help and the parameters that FastAPI reads."""
    required, keyword = inspect.Parameter.empty, inspect.Parameter.KEYWORD_ONLY
    parameters = [
        inspect.Parameter(name, keyword, annotation=kind, default=defaults.get(name, required))
        for name, kind in kinds.items()
    ]
    endpoint.__name__, endpoint.__doc__ = route.operation.verb, route.operation.help
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
    route = Route(interface, model.task)
    values = {name: value for name, value in parameters.values.items() if name != "file"}
    try:
        body = route.body.model_validate({**values, "model": model.name})
    except ValidationError as error:
        raise RequestValidationError(
            [{**problem, "loc": ("body", *problem["loc"])} for problem in error.errors()]
        ) from None
    item = None
    if isinstance(interface.input, Files):
        file = parameters.file("file")
        if file is None:
            raise ApiError(400, f"{model.name} reads files; send one as the field file of a form")
        item = await item_of(file, interface)
    return await route.answer(body, request, client, item)


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
