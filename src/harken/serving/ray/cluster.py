"""The Ray cluster of a command: the one that RAY_ADDRESS names, or one on this machine that ends with the command."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType

from harken.errors import UserError, missing_extra
from harken.machine import available_cores

OBJECT_STORE = 2**28  # bytes of shared memory of a cluster on this machine; requests and shards are far smaller


def import_ray(library: str) -> ModuleType:
    """The package ray, with usage reports switched off, and for a cluster on this machine a token switched on.

    Args:
        library: the part of ray that is used: data or serve.

    Raises:
        UserError: it is not installed.
    """
    if "ray" not in sys.modules:  # which reads these when it is imported
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        if not os.environ.get("RAY_ADDRESS"):  # a cluster on this machine; another has its own token
            os.environ.setdefault("RAY_AUTH_MODE", "token")
            os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    try:
        import_module(f"ray.{library}")
    except ImportError:
        raise missing_extra("ray", "ray", "--engine ray") from None
    return import_module("ray")


@contextmanager
def cluster(library: str, workers: int | None = None, verbose: bool = False) -> Iterator[ModuleType]:
    """Connect to the cluster of RAY_ADDRESS, or run one on this machine during the block.

    A cluster on this machine has no dashboard. Ray lets its processes listen on the address of the machine, so they ask
    for a token, which is drawn here and passed to them in their environment.

    Args:
        library: see `import_ray`.
        workers: CPU cores of a cluster on this machine, at least. Default: those of the machine.
        verbose: print what the processes of the cluster print.

    Raises:
        UserError: ray is not installed, or the cluster cannot be reached.
    """
    ray = import_ray(library)
    if ray.is_initialized():  # by the caller, who also ends it
        yield ray
        return
    address = os.environ.get("RAY_ADDRESS")
    try:
        if address:
            ray.init(address=address, log_to_driver=verbose, logging_level="WARNING")
        else:
            ray.init(
                address="local",
                num_cpus=max(available_cores(), workers or 1),
                object_store_memory=OBJECT_STORE,
                include_dashboard=False,
                log_to_driver=verbose,
                logging_level="ERROR",
            )
    except Exception as error:  # ray raises that very class where its processes do not start in time
        where = f"the Ray cluster of RAY_ADDRESS={address}" if address else "a Ray cluster on this machine"
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise UserError(f"{where} cannot be used ({first}); check the address, or unset RAY_ADDRESS") from None
    try:
        yield ray
    finally:
        ray.shutdown()
