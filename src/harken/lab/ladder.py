"""The same recipe up the ladder: one network after another on one task, and one table of what each gave and cost.

Data, tokenizer, training and search stay as the recipe has them; `model` is replaced rung by rung. So that no rung wins
by being larger, the width of each is fitted until it has about as many parameters as the recipe's own model.

    table = climb("phrasebook-ladder", "runs/ladder", rungs=["lstm", "attention", "transformer"])

Each rung is a model folder of its own; a ladder that was stopped goes on where it stopped. The recipe
`phrasebook-ladder` is a budget in which `PRESET_RUNGS` come out in the order that longer training gives.
"""

from __future__ import annotations

import json
import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from harken.errors import UserError
from harken.recipe import as_recipe
from harken.registry import CELLS

if TYPE_CHECKING:
    from harken.tasks.translate.recipe import TranslateRecipe

RESULTS = "ladder.json"
PRESET, PRESET_RUNGS = "phrasebook-ladder", ("lstm", "attention", "transformer")
LAST = 0.25  # share of the updates at the end that says whether a rung has converged
GAIN = 1.0  # BLEU that it may still gain there
LOW, DROP = 20.0, 0.02  # below this BLEU, which says little, the share by which the loss may still fall
WIDTH_STEP = 16  # widths that are tried; heads divide it
WIDEST = 4096


@dataclass(frozen=True)
class Rung:
    """One network of the ladder: what it says in `[model]`."""

    name: str
    shows: str
    words: dict[str, Any]


RECURRENT: dict[str, Any] = {"architecture": "recurrent"}
RUNGS = (
    Rung("rnn", "vanilla RNN, no attention", {**RECURRENT, "cell": "rnn", "attention": "none"}),
    Rung("lstm", "LSTM, no attention", {**RECURRENT, "cell": "lstm", "attention": "none"}),
    Rung("gru", "GRU, no attention", {**RECURRENT, "cell": "gru", "attention": "none"}),
    Rung("rnn-attention", "vanilla RNN with attention", {**RECURRENT, "cell": "rnn", "attention": "additive"}),
    Rung("attention", "LSTM with attention", {**RECURRENT, "cell": "lstm", "attention": "additive"}),
    Rung("gru-attention", "GRU with attention", {**RECURRENT, "cell": "gru", "attention": "additive"}),
    Rung(
        "deep",
        "4 LSTM layers, residual (GNMT)",
        {
            **RECURRENT,
            "cell": "lstm",
            "attention": "additive",
            "layers": 4,
            "bidirectional": "first",
            "connections": "residual",
        },
    ),
    Rung("bytenet", "dilated convolutions (ByteNet)", {"architecture": "convolutional", "style": "bytenet"}),
    Rung("convolutional", "gated convolutions (ConvS2S)", {"architecture": "convolutional", "style": "convs2s"}),
    Rung("transformer", "Transformer", {"architecture": "transformer"}),
    Rung("experts", "Transformer with 4 experts", {"architecture": "transformer", "experts": 4, "experts_active": 2}),
)


@dataclass(frozen=True)
class Result:
    """The scores and the cost of one rung."""

    rung: str
    shows: str
    bleu: float
    chrf: float
    alignment_error: float | None  # None where there are no gold links, or nothing attends
    split: str  # what was scored
    parameters: int
    flops: float  # of training
    seconds: float  # of training, validation included
    tokens_per_second: float  # target tokens, the median over the run
    updates: int
    folder: str
    curve: list[list[float]] = field(default_factory=list)  # of every validation: update, loss, BLEU

    @property
    def gain(self) -> float:
        """BLEU that the last quarter of the updates gained on the validation set."""
        return _late_change(self.curve, 2)

    @property
    def converged(self) -> bool | None:
        """Whether the validation score had stopped rising; None with fewer than three validations.

        >>> curve = [[100, 4, 1], [300, 3, 5], [400, 2, 9]]
        >>> slow = Result("lstm", "", 9.0, 0, None, "test", 1, 1, 1, 1, 400, "", curve)
        >>> slow.gain, slow.converged
        (4.0, False)
        """
        if len(self.curve) < 3:
            return None
        loss, bleu = self.curve[-1][1:]
        falls = _late_change(self.curve, 1) < -DROP * loss
        return self.gain <= GAIN and not (bleu < LOW and falls)


def _late_change(curve: Sequence[Sequence[float]], column: int) -> float:
    """How much a number changed over the last quarter of the updates, lines drawn between validations."""
    if len(curve) < 2:
        return math.nan
    steps, values = [row[0] for row in curve], [row[column] for row in curve]
    return values[-1] - float(np.interp((1 - LAST) * steps[-1], steps, values))


def rungs_named(names: Sequence[str] | None) -> list[Rung]:
    """The rungs of these names, in the order of the ladder; all of them for None.

    A registered cell, or "module:Name", is a rung too, and with "-attention" behind it one with attention.

    Raises:
        UserError: a name that is none, or no name at all.
    """
    known = {rung.name: rung for rung in RUNGS}
    if names is not None and not names:
        raise UserError(f"no rung is named; choose from {', '.join(known)}, or leave rungs out for all of them")
    own = []
    for name in names or ():
        cell = name.removesuffix("-attention")
        if name not in known and cell not in CELLS.shipped and cell in CELLS:
            attention, shows = ("none", "no attention") if cell == name else ("additive", "with attention")
            words = {**RECURRENT, "cell": cell, "attention": attention}
            own.append(Rung(name.replace(":", "."), f"{cell}, {shows}", words))
        elif name not in known:
            near = get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]}?" if near else f"it has {', '.join(known)}"
            raise UserError(f"the ladder has no rung {name!r}; {hint}")
    return [*(rung for rung in RUNGS if names is None or rung.name in names), *own]


def climb(
    recipe: str | Path | TranslateRecipe,
    out: str | Path,
    *,
    rungs: Sequence[str] | None = None,
    overrides: Sequence[str] = (),
    progress: bool = True,
    tell: Callable[[str], None] = lambda line: None,
) -> list[Result]:
    """Train and score every rung; those that are finished in `out` are read from there.

    Raises:
        UserError: an unknown rung, a recipe that is wrong, or a folder of another recipe.
    """
    own: TranslateRecipe = as_recipe(recipe, overrides)
    if own.task != "translate":
        raise UserError(f"the ladder compares translators, but this recipe's task is {own.task!r}")
    out, chosen, pairs = Path(out), rungs_named(rungs), None
    out.mkdir(parents=True, exist_ok=True)
    known = _read_results(out, own)
    for number, rung in enumerate(chosen, start=1):
        if rung.name in known:
            tell(f"{number} of {len(chosen)}: {rung.name} is finished in {out / rung.name}")
            continue
        tell(f"{number} of {len(chosen)}: {rung.name}, {rung.shows}")
        if pairs is None:
            pairs = _test_pairs(own)
        known[rung.name] = _train_and_score(rung, own, out / rung.name, pairs, progress)
        _write_results(out, own, known)
    return [known[rung.name] for rung in chosen]


def on_rung(recipe: TranslateRecipe, rung: Rung) -> TranslateRecipe:
    """The recipe with the rung's network, fitted to the size of the recipe's own.

    Raises:
        UserError: the network cannot be made from what the recipe says.
    """
    from pydantic import ValidationError

    words = dict(rung.words)
    own = recipe.model.model_dump(exclude={"decoder"})
    shared = own if own["architecture"] == words["architecture"] else {key: own[key] for key in ("dropout", "tied")}
    if own["architecture"] == words["architecture"]:
        words = {**shared, **words}
        if words == own:
            return recipe
    else:
        words = {**shared, **words, "layers": words.get("layers", own["layers"])}
    words.pop("width", None)
    values = recipe.model_dump()
    vocabulary = recipe.tokenizer.size
    size = _parameters(recipe, vocabulary)
    best: tuple[float, TranslateRecipe] | None = None
    for width in range(WIDTH_STEP, WIDEST + 1, WIDTH_STEP):
        try:
            candidate = type(recipe).model_validate({**values, "model": {**words, **_widths(words, width)}})
        except ValidationError as problem:
            raise UserError(f"rung {rung.name}: {problem.errors()[0]['msg']}") from None
        total = _parameters(candidate, vocabulary)
        if best is None or abs(total - size) < best[0]:
            best = (abs(total - size), candidate)
        if total > size:
            break
    assert best is not None
    return best[1]


def _parameters(recipe: TranslateRecipe, vocabulary: int) -> int:
    from harken.models.build import build_model
    from harken.models.sizing import count_parameters, uninitialised

    model = uninitialised(lambda: build_model(recipe.model, vocabulary, vocabulary))
    return sum(count_parameters(model).values())


def _widths(words: dict[str, Any], width: int) -> dict[str, Any]:
    if words["architecture"] == "recurrent":
        return {"width": width, "embedding": max(WIDTH_STEP, width // 2)}
    if words["architecture"] == "transformer":
        return {"width": width, "feedforward": 4 * width // (2 if words.get("experts") else 1)}
    return {"width": width, "embedding": width}


def _test_pairs(recipe: TranslateRecipe) -> tuple[str, Sequence[Any]]:
    """The test set that rungs are scored on; the validation set where there is none."""
    from harken.data.text.parallel import read_corpus

    corpus = read_corpus(recipe.data)
    if "test" in corpus.tests or not corpus.tests:
        name = "test" if corpus.tests else "valid"
        return name, corpus.tests.get("test", corpus.valid)
    name = next(iter(corpus.tests))
    return name, corpus.tests[name]


def _train_and_score(
    rung: Rung, recipe: TranslateRecipe, folder: Path, test: tuple[str, Sequence[Any]], progress: bool
) -> Result:
    from harken.api import train
    from harken.models.sizing import measure
    from harken.training.checkpoints import load_checkpoint
    from harken.training.log import read_metrics

    translator = train(on_rung(recipe, rung), folder, resume=folder.exists(), progress=progress)
    stored = load_checkpoint(folder)
    if stored is None:
        raise UserError(f"{folder} has lost its checkpoint, so what it cost is not known; delete it to train it again")
    state = stored[1]
    split, pairs = test
    scores = translator.evaluate(pairs)
    metrics = read_metrics(folder)
    speeds = [entry["tokens_per_second"] for entry in metrics if entry["kind"] == "train"]
    curve = [[entry["step"], entry["loss"], entry["bleu"]] for entry in metrics if entry["kind"] == "valid"]
    return Result(
        rung=rung.name,
        shows=rung.shows,
        bleu=scores.bleu.value,
        chrf=scores.chrf.value,
        alignment_error=scores.alignment_error,
        split=split,
        parameters=sum(parameter.numel() for parameter in translator.model.parameters()),
        flops=measure(translator.model).flops * state.tokens,
        seconds=state.seconds,
        tokens_per_second=statistics.median(speeds) if speeds else state.tokens / max(state.seconds, 1e-9),
        updates=state.step,
        folder=rung.name,
        curve=curve,
    )


def _read_results(out: Path, recipe: TranslateRecipe) -> dict[str, Result]:
    path = out / RESULTS
    if not path.exists():
        return {}
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        results = {entry["rung"]: Result(**entry) for entry in stored["results"]}
    except (ValueError, KeyError, TypeError) as problem:
        raise UserError(f"{path} cannot be read ({problem}); delete it, and finished rungs are scored again") from None
    if stored.get("recipe") != recipe.to_toml():
        raise UserError(f"{out} holds the ladder of another recipe; choose another folder, or delete it first")
    return {name: result for name, result in results.items() if (out / name / "card.md").is_file()}


def _write_results(out: Path, recipe: TranslateRecipe, results: dict[str, Result]) -> None:
    from harken.card import atomic_write

    date = time.strftime("%Y-%m-%d")
    entries = [asdict(result) for result in results.values()]
    atomic_write(out / RESULTS, json.dumps({"date": date, "recipe": recipe.to_toml(), "results": entries}, indent=1))
