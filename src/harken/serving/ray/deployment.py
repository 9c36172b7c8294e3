"""The server of `create_app` as a Ray Serve application.

    HTTP -> Server (one, on the head node): routes, dialects, keys, limits
         -> Models (replicas, on any node): queue, batches, worker process

`harken serve --engine ray` runs it until it is stopped. In a file for Ray Serve or KubeRay the application is
`harken.serving.ray.deployment:application`, with the fields of `ApplicationSettings` as its `args`.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from harken.errors import UserError
from harken.files import expand_user
from harken.serving.app import create_app, listen
from harken.serving.ray.cluster import cluster, import_ray
from harken.serving.ray.engine import RayEngine
from harken.serving.ray.replica import ModelReplica
from harken.serving.settings import ServerSettings

NAME, MODELS, SERVER = "harken", "Models", "Server"
HEAD = {"node:__internal_head__": 0.001}  # the resource that the head node alone has
MANY = 10_000  # requests at once; the queues of the replicas, which count tokens, refuse long before
REQUESTS_PER_REPLICA = 32.0  # past it, on average, Ray Serve adds a replica
DEPLOY_SECONDS = 600.0  # until a replica has loaded the models


class ApplicationSettings(BaseModel):
    """Arguments of `application`.

    >>> ApplicationSettings(models=["runs/demo"]).settings.batch_tokens
    2048
    """

    model_config = ConfigDict(extra="forbid")

    models: list[str] = Field(description="model folders, each perhaps with its languages; the same on all nodes")
    max_workers: int | None = Field(default=None, ge=1, description="replicas at most; None: one per core, or per GPU")
    extensions: list[str] = Field(
        default=[], description='`extensions` of `create_app`, as in "harken.studio.app:serving_studio"'
    )
    settings: ServerSettings = Field(default=ServerSettings(), description="of the server; workers: replicas at least")


def application(arguments: ApplicationSettings) -> Any:
    """The application, to be run or deployed by Ray Serve on a cluster that this process is connected to."""
    ray = import_ray("serve")
    serve = ray.serve
    settings, models = arguments.settings, [absolute(model) for model in arguments.models]
    device, resources, capacity = _resources(ray.cluster_resources(), settings.device)
    given = {name: getattr(settings, name) for name in ("api_keys", "suggestions", "state")}
    paths = {name: path.expanduser().absolute() for name, path in given.items() if path is not None}
    settings = settings.model_copy(update={"device": device, **paths})
    least = max(1, settings.workers)
    scaling = {
        "min_replicas": least,
        "initial_replicas": least,
        "max_replicas": max(least, arguments.max_workers or capacity),
        "target_ongoing_requests": REQUESTS_PER_REPLICA,
    }
    replicas = serve.deployment(
        ModelReplica,
        name=MODELS,
        autoscaling_config=scaling,
        max_ongoing_requests=MANY,
        graceful_shutdown_timeout_s=settings.stop_seconds,
        ray_actor_options=resources,
    ).bind(models, settings.model_dump())

    def build() -> Any:
        return _create_server(models, settings, arguments.extensions)

    server = serve.deployment(
        serve.ingress(build)(),
        name=SERVER,
        num_replicas=1,  # rates, character counts and glossaries are kept in one process
        max_ongoing_requests=MANY,
        graceful_shutdown_timeout_s=settings.stop_seconds,
        ray_actor_options={"num_cpus": 0, "resources": HEAD},
    )
    return server.bind(replicas)


def _create_server(models: Sequence[str], settings: ServerSettings, extensions: Sequence[str]) -> Any:
    """The app of one machine, whose engine asks the replicas."""
    ray = import_ray("serve")
    errors = ray.exceptions
    died = (errors.RayActorError, errors.NodeDiedError, errors.WorkerCrashedError, errors.ObjectLostError)
    app = create_app(models, settings, [resolve_name(name) for name in extensions])
    serving = app.state.serving
    handle = ray.serve.get_deployment_handle(MODELS, app_name=ray.serve.get_replica_context().app_name)
    serving.engine = RayEngine(handle, serving.registry.folders, settings, serving.metrics, died)
    return app


def _resources(available: dict[str, float], device: str) -> tuple[str, dict[str, float], int]:
    """Where models run, what a replica takes, and how many the cluster has room for.

    >>> _resources({"CPU": 8.0}, "auto")
    ('cpu', {'num_cpus': 1}, 8)
    >>> _resources({"CPU": 8.0, "GPU": 2.0}, "auto")
    ('cuda', {'num_cpus': 1, 'num_gpus': 1}, 2)
    """
    on_gpu = device.startswith("cuda") or (device == "auto" and available.get("GPU", 0) >= 1)
    if on_gpu:
        return "cuda", {"num_cpus": 1, "num_gpus": 1}, int(available.get("GPU", 1))
    return "cpu", {"num_cpus": 1}, int(available.get("CPU", 1))


def absolute(model: str) -> str:
    """FOLDER or FOLDER@en-fr with an absolute folder: replicas run in other working directories."""
    folder, at, pair = model.rpartition("@")
    if not at or Path(model).is_dir():
        return str(expand_user(model).absolute())
    return f"{expand_user(folder).absolute()}@{pair}"


def run(arguments: ApplicationSettings, host: str, port: int, announce: Callable[[str], None] = print) -> None:
    """Serve until SIGINT or SIGTERM; what was accepted is finished first.

    Raises:
        UserError: ray is not installed, the address cannot be used, or a model cannot be loaded.
    """
    with listen(host, port) as free:  # a port in use is told at once, and 0 becomes a number
        port = free.getsockname()[1]
    stopped = threading.Event()
    with cluster("serve", arguments.settings.workers, verbose=True) as ray:
        serve = ray.serve
        quiet = {"log_level": "WARNING", "enable_access_log": False}  # query strings may carry texts
        serve.start(proxy_location="HeadOnly", http_options={"host": host, "port": port}, logging_config=quiet)
        try:
            serve.run(application(arguments), name=NAME, route_prefix="/", logging_config=quiet)
            handle = serve.get_deployment_handle(MODELS, app_name=NAME)
            state = handle.state.remote().result(timeout_s=DEPLOY_SECONDS)
            if state["problem"]:
                raise UserError(state["problem"])
            for number in (signal.SIGINT, signal.SIGTERM):  # until here they end the start
                signal.signal(number, lambda *_: stopped.set())
            address = f"[{host}]" if ":" in host else host
            announce(f"Ready on http://{address}:{port} (Ctrl-C stops)")
            stopped.wait()
        finally:
            serve.delete(NAME)
            if not serve.status().applications:  # of others on the same cluster
                serve.shutdown()
