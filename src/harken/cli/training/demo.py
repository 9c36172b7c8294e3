"""`harken demo`: train a small Transformer on everyday sentences, score it, and look inside. `make demo` runs it.

The sentences are the corpus that ships (`harken.data.tatoeba`).
"""

from __future__ import annotations

import shlex
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harken.cli.common import AsJson, examples, folder_option, print_json, print_table
from harken.cli.jobs.translate import unknown_note
from harken.cli.messages import logger
from harken.cli.progress import counting
from harken.errors import Interrupted, UserError
from harken.training.folder import request

if TYPE_CHECKING:
    from harken.tasks.translate.translator import Translator

DEFAULT_OUT = Path("runs/demo")
RECIPE = "tatoeba-transformer"
SENTENCES = {  # of our own making, with their references; none is in the training data
    "I think we should leave before it starts raining.": (
        "Je pense que nous devrions partir avant qu'il ne commence à pleuvoir."
    ),
    "Our neighbor's cat is sleeping on my bed again.": "Le chat de notre voisin dort encore sur mon lit.",
    "Where did you buy that beautiful red dress?": "Où as-tu acheté cette belle robe rouge ?",
    "My sister doesn't want to go to school today.": "Ma sœur ne veut pas aller à l'école aujourd'hui.",
    "The zebra is sleeping under the table.": "Le zèbre dort sous la table.",  # a word it never saw
}
PICTURED = 2  # the sentence whose alignment is drawn


@examples("harken demo", "harken demo --out runs/another", "harken demo --open      (then the studio in the browser)")
def demo(
    out: Annotated[Path, folder_option("Folder for the model and pictures; a finished one is reused.")] = DEFAULT_OUT,
    open_page: Annotated[
        bool, typer.Option("--open", help="Then open the studio with the model in the browser.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Train a translator, score it, and draw its alignment: three minutes on two idle cores."""
    with redirect_stdout(sys.stderr) if as_json else nullcontext():
        translator = trained(out)
    if translator.recipe.data.corpus != "tatoeba":
        raise UserError(f"--out {out} holds a model of another corpus; choose a new folder for the demo")
    from harken.tasks.registry import job_of

    started = time.perf_counter()
    translator.prepare()
    if (seconds := time.perf_counter() - started) > 5:  # loading them takes less
        logger.info(f"\nCompiled the kernels of the search for this processor in {seconds:.0f} s (harken warm).")
    pairs = job_of("translate").examples(translator, "test")
    logger.info(f"\nTranslating the {len(pairs):,} sentences of the test set ...")
    with counting("sentences", total=len(pairs)) as tick:
        result = translator.evaluate(pairs, progress=tick)
    best = translator.translate(list(SENTENCES), attention=True)
    if as_json:
        translations = [
            {
                "source": translation.source,
                "text": translation.text,
                "reference": reference,
                "unknown": translation.unknown_words,
            }
            for translation, reference in zip(best, SENTENCES.values(), strict=True)
        ]
        print_json({"model": str(out), **result.to_dict(), "translations": translations})
        return
    print(f"\nTest BLEU {result.bleu.value:.2f}   ({result.bleu.signature})")
    print(f"Test chrF {result.chrf.value:.2f}   ({result.chrf.signature})")

    print("\nFive sentences that are not in the training data:\n")
    print_table(("English", "French"), [(translation.source, translation.text) for translation in best])
    print(f"\n{compare_with_references([translation.text for translation in best])}")
    for translation in best:
        if translation.unknown:
            print(f"“{translation.source}”: {unknown_note(translation.unknown_words)}.")
    picture = best[PICTURED].map()
    print(f"\nWhich word came from which:\n\n{picture.to_terminal()}\n")
    for name in ("alignment.html", "alignment.png"):
        print(f"wrote {picture.save(out / name)}")
    print(f"\nWhat to try next:\n{suggestions(out)}")
    if open_page:
        from harken.cli.serving.studio import studio

        studio(out, open_page=True)
    else:
        print(f"\nTo translate and look inside in the browser: {program()} studio {shlex.quote(str(out))} --open")


def compare_with_references(texts: Sequence[str]) -> str:
    """The number of the five translations that are the references, and the references of the others."""
    pairs = zip(SENTENCES.items(), texts, strict=True)
    others = [(source, reference) for (source, reference), text in pairs if text != reference]
    lines = [f"{len(texts) - len(others)} of {len(texts)} are the reference translation."]
    lines += [f"“{source}” is not: the reference is “{reference}”." for source, reference in others]
    return "\n".join(lines)


def trained(out: Path) -> Translator:
    """The demo's model: as it stands, or trained, or trained further where a run was stopped."""
    from harken.api import load, train

    if (out / "card.md").is_file():  # the last thing a run writes
        logger.info(f"Using the finished model in {out} (delete the folder to train again).")
        return load(out)
    resume = (out / "recipe.toml").is_file()
    request(out, resume, restart=False)
    logger.info(f"{'Resuming' if resume else 'Training'} {RECIPE} into {out} ...")
    try:
        return train(RECIPE, out, resume=resume)
    except KeyboardInterrupt as stop:
        raise Interrupted(getattr(stop, "number", signal.SIGINT), "run the demo again to continue from here") from None


def suggestions(out: Path) -> str:
    """Commands that work as they stand."""
    folder = shlex.quote(str(out))
    call = program()
    return "\n".join(
        f"  {line}"
        for line in (
            f"echo 'What would you like to eat tonight?' | {call} translate {folder}",
            f"{call} attention {folder} 'She is afraid of her own shadow.' --out {folder}/shadow.html",
            f"{call} train {RECIPE} --out runs/longer --set train.max_minutes=15      # a better model",
            f"{call} train phrasebook-attention --out runs/attention    # a recurrent network on a generated corpus",
            f"{call} recipes                                            # all that ships, and a file to start from",
        )
    )


def program() -> str:
    """The command that calls harken from here."""
    return ".venv/bin/harken" if Path(".venv/bin/harken").exists() else "harken"
