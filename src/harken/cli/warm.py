"""`harken warm`: what a first translation would otherwise wait for, done ahead."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from harken.cli.common import examples, load_with_job
from harken.cli.messages import logger


@examples("harken warm", "harken warm runs/demo")
def warm(
    models: Annotated[
        list[Path] | None, typer.Argument(metavar="[MODEL...]", help="Model folders that are opened soon.")
    ] = None,
) -> None:
    """Compile the kernels of the search for this processor, and prepare models for a quick start.

    Kernels are compiled once for a version of harken and a processor, and kept in numba's cache (NUMBA_CACHE_DIR). Of a
    translator the description of its decoder is stored, so that `harken translate` need not import torch.
    """
    from harken.recipe import model_recipe

    for folder in models or []:
        model_recipe(folder)  # refuses what is no model before kernels are compiled
    compile_all()
    for folder in models or []:
        started = time.perf_counter()
        model, job = load_with_job(folder)
        is_stored = job.prepare_opening(model)
        note = "" if is_stored else "; it is still opened with torch, as no description of a decoder could be stored"
        done = "ready" if is_stored else "loaded"
        logger.info(f"{folder}: {done} in {time.perf_counter() - started:.1f} s{note}")


def compile_all() -> None:
    """Compile what is not on disk, and say how long it took; where there is no compiler, say so."""
    from harken.search.compiled import compile_kernels, why_not_installed

    if reason := why_not_installed():
        logger.info(f"there are no kernels to compile: {reason}")
        return
    for name, is_known, seconds in compile_kernels():
        logger.info(f"{name}: {'on disk already, loaded' if is_known else 'compiled'} in {seconds:.1f} s")
