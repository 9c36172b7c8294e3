"""`harken serve`: model folders behind HTTP, with the dialects of LibreTranslate and DeepL.

--new-key NAME    adds a key to the file of --api-keys, prints it once, and ends
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from harken.cli.common import examples
from harken.cli.messages import logger
from harken.errors import UserError


@examples(
    "harken serve runs/demo --studio      (then open http://127.0.0.1:5000)",
    "harken serve runs/en-fr@en-fr runs/fr-de@fr-de --workers 2      (en to de goes through fr)",
    "harken serve --api-keys keys.json --new-key alice      (prints a key)",
)
def serve(
    models: Annotated[
        list[str] | None,
        typer.Argument(metavar="MODEL...", help="Model folders; FOLDER@en-fr says the languages of a translator."),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 for all of this machine.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0: any that is free.")] = 5000,
    workers: Annotated[int, typer.Option(min=1, max=64, help="Worker processes, each with all models.")] = 1,
    engine: Annotated[
        Literal["local", "ray"],
        typer.Option(help="Where models run: on this machine, or as replicas on the Ray cluster of RAY_ADDRESS."),
    ] = "local",
    max_workers: Annotated[
        int | None,
        typer.Option(
            min=1, help="With --engine ray: replicas under load. Default: one per core or GPU of the cluster."
        ),
    ] = None,
    device: Annotated[str, typer.Option(help="Where models run: auto, cpu, cuda, cuda:1 ...")] = "auto",
    api_keys: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File of API keys; every request needs one of them.")
    ] = None,
    no_keys: Annotated[
        bool, typer.Option("--no-keys", help="Serve everybody who reaches an address that is not this machine's own.")
    ] = False,
    new_key: Annotated[
        str | None, typer.Option(metavar="NAME", help="Add a key to the file of --api-keys, print it, and leave.")
    ] = None,
    key_rate: Annotated[int | None, typer.Option(min=1, help="With --new-key: requests a minute of that key.")] = None,
    key_characters: Annotated[
        int | None, typer.Option(min=1, help="With --new-key: characters of that key until a restart.")
    ] = None,
    rate_limit: Annotated[
        int | None, typer.Option(min=1, help="Requests a minute of each client; default: no limit.")
    ] = None,
    batch_tokens: Annotated[int, typer.Option(min=1, help="Source tokens of a batch, estimated.")] = 2048,
    queue_tokens: Annotated[
        int, typer.Option(min=1, help="Tokens that may wait; past it clients get 429 with Retry-After.")
    ] = 65536,
    timeout: Annotated[float, typer.Option(min=0.1, max=3600, help="Seconds until a request is given up.")] = 60.0,
    max_characters: Annotated[int, typer.Option(min=1, help="Characters of a request.")] = 50_000,
    max_texts: Annotated[int, typer.Option(min=1, help="Texts of a request.")] = 512,
    cors: Annotated[
        list[str] | None, typer.Option(metavar="ORIGIN", help="Origin that browsers may call from; may be given often.")
    ] = None,
    allowed_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Host name to answer to, as of a reverse proxy; may be given often."),
    ] = None,
    public_url: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="Address that clients use, as of a reverse proxy: https://translate.example.org"
        ),
    ] = None,
    trusted_proxy: Annotated[
        list[str] | None,
        typer.Option(metavar="ADDRESS", help="Proxy whose X-Forwarded-For is believed; may be given often."),
    ] = None,
    state: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder of glossaries; default: lost when the server stops.")
    ] = None,
    suggestions: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Append what POST /suggest sends; default: it is off.")
    ] = None,
    studio: Annotated[
        bool, typer.Option("--studio", help="Also the studio, a page at / that looks inside the models.")
    ] = False,
    access_log: Annotated[
        bool, typer.Option("--access-log", help="A line for each request on stderr, without its text.")
    ] = False,
) -> None:
    """Serve models: LibreTranslate's and DeepL's API, and a native one for every job."""
    if new_key is not None:
        _add_key(api_keys, new_key, key_rate, key_characters)
        return
    if not models:
        raise UserError("there is no model to serve; name at least one folder, as in harken serve runs/demo")
    if max_workers is not None and engine != "ray":
        raise UserError("--max-workers is for --engine ray; without it, --workers is the number of processes")
    from harken.serving.app import create_app, run
    from harken.serving.limits import hosts_of, require_keys
    from harken.serving.settings import ServerSettings

    require_keys(host, api_keys, no_keys)
    if engine == "ray":
        from harken.serving.ray.cluster import import_ray

        import_ray("serve")
    given: dict[str, Any] = {
        "workers": workers, "device": device, "api_keys": api_keys, "rate_limit": rate_limit,
        "batch_tokens": batch_tokens, "queue_tokens": queue_tokens, "timeout": timeout,
        "max_characters": max_characters, "max_texts": max_texts, "cors": cors or [], "state": state,
        "suggestions": suggestions, "access_log": access_log, "allowed_hosts": hosts_of(host, allowed_host or []),
        "public_url": public_url, "trusted_proxies": trusted_proxy or [],
    }  # fmt: skip
    extensions: list[Any] = []
    if studio:
        from harken.studio.app import serving_studio

        extensions.append(serving_studio)
    try:
        settings = ServerSettings(**given)
    except ValueError as error:  # the options have the other bounds
        raise UserError(
            f"--public-url {public_url} is no address; write it as https://HOST or http://HOST:PORT"
        ) from error
    app = create_app(models, settings, extensions)
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(message)s")
    for model in app.state.serving.registry.models.values():
        pair = f", {model.source} -> {model.target}" if model.source else ""
        logger.info(f"Serving {model.name} ({model.task}{pair}) from {model.folder}")
        if model.advice:
            logger.info(f"Note: {model.advice}")
    if engine == "ray":
        from harken.serving.ray import deployment

        arguments = deployment.ApplicationSettings(
            models=models,
            max_workers=max_workers,
            extensions=[f"{extension.__module__}:{extension.__qualname__}" for extension in extensions],
            settings=settings,
        )
        deployment.run(arguments, host, port, announce=logger.info)
        return
    run(app, host, port, announce=logger.info)


def _add_key(path: Path | None, name: str, per_minute: int | None, characters: int | None) -> None:
    from harken.serving.keys import new_key

    if path is None:
        raise UserError("--new-key needs --api-keys FILE, the file that the key's hash is written to")
    print(new_key(path, name, per_minute, characters))
    logger.info(f"Its hash is in {path}; the key itself is kept nowhere, so note it now.")
