"""`harken distill`: teachers in, a faster student out."""

from __future__ import annotations

import shlex
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from harken.cli.common import Beam, Overrides, complete_recipe, examples, folder_option, print_table, use_of
from harken.cli.jobs.translate import models_and_file, weights_of
from harken.cli.messages import logger
from harken.cli.progress import INTERVAL
from harken.errors import Interrupted, UserError


@examples(
    "harken distill runs/phrasebook --out runs/student --recipe phrasebook-student",
    "harken distill runs/one runs/two --out runs/student      (an ensemble; the recipe follows the first teacher)",
    "harken distill runs/opus sources.txt --out runs/student --size tiny      (text for an adopted teacher)",
    "harken distill runs/phrasebook --out runs/student --resume      (after Ctrl-C)",
)
def distill(
    teachers: Annotated[
        list[Path],
        typer.Argument(
            metavar="TEACHER... [SOURCES]",
            help="Folder of a translator; several are an ensemble. A file at the end holds the sentences to translate.",
        ),
    ],
    out: Annotated[
        Path, folder_option("Folder for the student; its training pairs are beside it, in DIRECTORY.pairs.")
    ],
    recipe: Annotated[
        str | None,
        typer.Option(
            help="The student's recipe, whose \\[data] is replaced; phrasebook-student and multi30k-student ship. "
            "Default: the teacher's, with a deep encoder and a recurrent decoder of two layers.",
            autocompletion=complete_recipe,
        ),
    ] = None,
    size: Annotated[
        str | None,
        typer.Option(
            help="tiny, small or base in the place of --recipe, with a vocabulary and a shortlist of its own."
        ),
    ] = None,
    overrides: Overrides = None,
    beam: Beam = None,
    nbest: Annotated[int, typer.Option(min=1, help="Translations of each sentence to learn from.")] = 1,
    mbr: Annotated[
        str | None, typer.Option(help="Choose translations by minimum Bayes risk, as search.mbr: chrf or bleu.")
    ] = None,
    min_score: Annotated[
        float | None, typer.Option(help="Leave translations with a lower score out, as `harken score` prints it.")
    ] = None,
    int8: Annotated[
        bool,
        typer.Option(
            "--int8",
            help="Fine-tune the student for int8 decoding afterwards: an epoch in which products are rounded likewise. "
            "The student before that stays in DIRECTORY.float32.",
        ),
    ] = False,
    weights: Annotated[
        str | None, typer.Option(help="Weights of several teachers, such as 2,1,1. Default: equal.")
    ] = None,
    precision: Annotated[
        str | None,
        typer.Option(
            help="Of the teachers, as search.precision: float32, int8 or auto. Default: bfloat16 on a GPU, as auto."
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue a run that was stopped, in its translations or its training.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
) -> None:
    """Train a student on a teacher's translations of its own training text or of SOURCES (Kim and Rush, 2016).

    The student decodes several times as fast and is nearly as good; at the end scores, size and speed of both are
    measured on the CPU. Ctrl-C stops; --resume continues from there.
    """
    from harken.api import distill as run
    from harken.api import load
    from harken.tasks.translate.corpora.distilling import HEADINGS, compare

    *folders, sources = models_and_file(teachers)
    if not folders:
        raise UserError(f"{sources} is no folder of a teacher; name the teacher before the sources")
    try:
        model = run(
            folders,
            out,
            recipe,
            sources=sources,
            size=size,
            nbest=nbest,
            min_score=min_score,
            int8=int8,
            overrides=overrides or [],
            resume=resume,
            progress=not quiet,
            weights=weights_of(weights),
            report=None if quiet else reporter(),
            beam=beam,
            precision=precision,
            mbr=mbr,
        )
    except KeyboardInterrupt as stop:
        command = [word for word in sys.argv[1:] if word != "--resume"]
        number = getattr(stop, "number", signal.SIGINT)
        raise Interrupted(number, f"continue with\n  {shlex.join(['harken', *command, '--resume'])}") from None
    if not quiet:
        measured, rows = compare(load(folders[0], device="cpu"), load(out, device="cpu"))
        print_table(HEADINGS, rows, always_named=True)
        logger.info(
            f"Measured on {measured}. The student is in {out}. Try\n  {use_of(model.recipe.task, out)}\n"
            f"  harken evaluate {shlex.quote(str(out))} --compare {shlex.quote(str(folders[0]))}"
        )


def reporter() -> Callable[[int, int], None]:
    """Tells on stderr how far the translations are, at most every few seconds, with the time left."""
    started, reported, first = time.monotonic(), -INTERVAL, -1

    def report(done: int, total: int) -> None:
        nonlocal reported, first
        now = time.monotonic() - started
        first = done if first < 0 else first
        if now - reported < INTERVAL and done < total:
            return
        reported = now
        left = f", {(total - done) * now / (done - first):.0f} s left" if first < done < total else ""
        logger.info(f"translated {done:,} of {total:,} sentences{left}")

    return report
