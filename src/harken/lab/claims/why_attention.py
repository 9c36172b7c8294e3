"""Why attention: two networks that differ in one key read the same sentence, which may be the reader's own.

without   P(y | x) = P(y | h_S)            every word is written from one vector, however long the sentence is
with      P(y_t | y_<t, x) = P(.. | c_t)   a vector of its own for every word: c_t = sum over s of a_ts h_s

Both are rungs of the ladder (`harken.lab.ladder`): LSTMs of the same size, trained alike on the phrasebook. Shown are
BLEU by the length of the sentence, and side by side what each word was made from: with attention its weights a_ts,
without attention, which has no weights to show, |d log P(y_t) / d x_s|, each row normalised to sum to 1.
Bahdanau et al. (2015), figures 2 and 3.

>>> bucket_of("does she like the mountain?"), bucket_of("a " * 20)
(0, 4)
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from harken.inspection.figure import Figure, Lines, Series
from harken.lab.experiment import Experiment, Findings, Progress, Settings
from harken.lab.pool import spread

if TYPE_CHECKING:
    from harken.data.text.pairs import Pair
    from harken.tasks.translate.recipe import TranslateRecipe
    from harken.tasks.translate.translator import Translator

SENTENCE = "the black cat does not see the small dog"
BUCKETS = ((3, 5), (6, 8), (9, 11), (12, 15), (16, 24))  # words, from and to
SIZE = 20_000  # training pairs, as in the preset
MOST = 60  # sentences tested of each length
KINDS = {"lstm": "without attention", "attention": "with attention"}  # rungs of the ladder
MINUTES = 4  # a slow or busy machine stops here

BETTER = 10.0  # BLEU points by which attention is ahead on the longest sentences


def bucket_of(sentence: str) -> int:
    """Which of the lengths a sentence has."""
    words = len(sentence.split())
    return next((at for at, (_, last) in enumerate(BUCKETS) if words <= last), len(BUCKETS) - 1)


def write_corpus(folder: Path, size: int, held_out: int, most: int) -> list[list[Pair]]:
    """Phrasebook sentences to train and validate on, as files; returned: test sentences of each length."""
    from harken.data.synthetic.phrasebook import load_phrasebook

    corpus = load_phrasebook(train=size, valid=held_out, test=held_out)
    for name, pairs in (("train", corpus.train), ("valid", corpus.valid)):
        for side, lines in (("en", [pair.source for pair in pairs]), ("fr", [pair.target for pair in pairs])):
            (folder / f"{name}.{side}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    tests = corpus.tests["test"]
    return [[pair for pair in tests if bucket_of(pair.source) == at][:most] for at in range(len(BUCKETS))]


def recipe_of(rung: str, folder: Path, steps: int | None, seed: int) -> TranslateRecipe:
    """The preset of the ladder with this network, on the files of the folder."""
    from harken.lab.ladder import PRESET, on_rung, rungs_named
    from harken.recipe import load_recipe

    overrides = [f"train.seed={seed}", "train.workers=1", "train.threads=1", f"train.max_minutes={MINUTES}"]
    overrides += [f"train.max_steps={steps}", f"train.validate_every={steps}"] if steps else []
    values = load_recipe(PRESET, overrides).model_dump()
    files = {
        name: {"source": str(folder / f"{name}.en"), "target": str(folder / f"{name}.fr")}
        for name in ("train", "valid")
    }
    values["data"] = {**files["train"], "valid": files["valid"], "name": "phrasebook"}
    return on_rung(type(load_recipe(PRESET)).model_validate(values), rungs_named([rung])[0])


def train(recipe: TranslateRecipe, folder: Path, sentence: str, tests: Sequence[Sequence[Pair]]) -> dict[str, Any]:
    """One network: BLEU by length, its translation of the sentence, and what each word of it was made from."""
    from harken.api import train as train_recipe
    from harken.metrics import corpus_bleu

    model = train_recipe(recipe, folder, progress=False)
    bleu = []
    for pairs in tests:
        found = model.translate([pair.source for pair in pairs], beam=1, attention=False)
        bleu.append(corpus_bleu([one.text for one in found], [pair.target for pair in pairs]).value)
    best = model.translate(sentence, attention=True)
    weights = influence(model, best.source, best.text) if best.attention is None else best.attention
    return {
        "bleu": bleu,
        "source": best.source_words,
        "translation": best.target_words,
        "unknown": best.unknown,
        "map": weights.tolist(),
        "parameters": sum(parameter.numel() for parameter in model.model.parameters()),
        "width": recipe.model.width,
    }


def influence(translator: Translator, source: str, target: str) -> np.ndarray:
    """(target words, source words): how much log P of each target word changes with each source word, rows sum to 1."""
    from harken.data.tokenizers.tokens import BOS
    from harken.metrics.alignment import merge_subwords
    from harken.tasks.translate.known_form import known_forms

    model: Any = translator.model
    read, written = translator.read([source]).forms[0], known_forms([target], translator.target)[0]
    if not written.ids:
        return np.zeros((0, len(source.split())))
    ids, lengths, _ = translator.read([source]).batch([0], translator.device)
    inputs = torch.tensor([[BOS, *written.ids[:-1]]], device=translator.device)
    rows = []
    for place, token in enumerate(written.ids):  # a pass for each: kernels keep nothing for a second one backwards
        embedded = model.source_embedding(ids).detach().requires_grad_()  # (1, S, D)
        hidden = model.narrow(
            model.decoder(model.target_embedding(inputs), model._join(model.encoder(embedded, lengths)))
        )
        chosen = torch.log_softmax(model.logits(hidden).float(), -1)[0, place, token]
        rows.append(torch.autograd.grad(chosen, embedded)[0][0, : len(read.ids)].norm(dim=-1))  # (S,)
    return merge_subwords(
        torch.stack(rows).cpu().numpy(),
        translator.target.word_of(written.ids, written.text),
        translator.source.word_of(read.ids, read.text),
        len(target.split()),
        len(source.split()),
    )


def judge(bleu: dict[str, Sequence[float]]) -> tuple[bool | None, str]:
    """Rung -> BLEU by length."""
    without, with_it = bleu["lstm"], bleu["attention"]
    ahead = with_it[-1] - without[-1]
    verdict = (
        f"on sentences of {BUCKETS[-1][0]} words and more, attention is {ahead:+.0f} BLEU ahead "
        f"({without[-1]:.0f} without, {with_it[-1]:.0f} with), on those of {BUCKETS[0][0]} to {BUCKETS[0][1]} words "
        f"{with_it[0] - without[0]:+.0f}"
    )
    if ahead >= BETTER:
        return True, verdict
    return (None if ahead > 0 else False), verdict


def explain(found: dict[str, dict[str, Any]]) -> str:
    """What the picture shows, in three sentences."""
    without, with_it = found["lstm"], found["attention"]
    return (
        f"Without attention, every word is written from one vector of {without['width']} numbers, however long the "
        f"sentence is: BLEU falls from {without['bleu'][0]:.0f} at {BUCKETS[0][0]} to {BUCKETS[0][1]} words to "
        f"{without['bleu'][-1]:.0f} at {BUCKETS[-1][0]} and more. "
        f"With attention, the network looks at all source words again before it writes the next one, and the map on "
        f"the right shows at which: BLEU goes from {with_it['bleu'][0]:.0f} to {with_it['bleu'][-1]:.0f}. "
        f"Your sentence becomes “{' '.join(without['translation'])}” without attention and "
        f"“{' '.join(with_it['translation'])}” with it."
    )


def run(settings: Settings, progress: Progress) -> Findings:
    """Both networks at once, a core each."""
    sentence = settings.sentence or SENTENCE
    size, held_out, steps, most = (300, 40, 3, 4) if settings.quick else (SIZE, 1000, None, MOST)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tests = write_corpus(folder, size, held_out, most)
        results = spread(
            lambda rung: train(recipe_of(rung, folder, steps, settings.seed), folder / rung, sentence, tests),
            list(KINDS),
            progress,
            lambda rung: f"trained and tested {KINDS[rung]}",
            1 if settings.quick else None,
        )
    found = dict(zip(KINDS, results, strict=True))
    holds, verdict = judge({rung: result["bleu"] for rung, result in found.items()})
    names = [f"{first} to {last}" for first, last in BUCKETS]
    rows: list[list[Any]] = [
        [name, *(f"{found[rung]['bleu'][at]:.1f}" for rung in KINDS)] for at, name in enumerate(names)
    ]
    return Findings(
        ["words", *(f"BLEU {name}" for name in KINDS.values())],
        rows,
        holds,
        verdict,
        _figure(found, names),
        {"sentence": sentence, "lengths": BUCKETS, "found": found},
        explain(found),
    )


def _figure(found: dict[str, dict[str, Any]], names: list[str]) -> Figure:
    from harken.inspection.tables import UNKNOWN_NOTE, AlignmentMap

    places = list(range(len(BUCKETS)))
    series = [Series(name, places, found[rung]["bleu"]) for rung, name in KINDS.items()]
    quality = Lines(
        "Quality by length",
        "words in the sentence",
        "BLEU",
        series,
        y_limits=(-2.0, 105.0),
        x_ticks=[(float(at), name) for at, name in enumerate(names)],
        names=names,
    )
    titles = {"lstm": "Without attention: influence by gradient", "attention": "With attention: its weights"}
    maps = [
        AlignmentMap(one["source"], one["translation"], one["map"], unknown=one["unknown"]).panel(titles[rung])
        for rung, one in found.items()
    ]
    sizes = " and ".join(f"{one['parameters']:,}" for one in found.values())
    note = (
        f"LSTM translators of {sizes} parameters, trained alike on the phrasebook; {MOST} test sentences of each "
        "length, greedy search. Rows of a map sum to 1: |d log P / dx| by gradient on the left, weights on the right."
    )
    unknown = f" {UNKNOWN_NOTE}" if any(one["unknown"] for one in found.values()) else ""
    title = "Why attention: without it, long sentences do not fit through one vector"
    return Figure(title, [*maps, quality], note + unknown)  # the maps in one row, the chart below them


EXPERIMENT = Experiment(
    name="why-attention",
    statement="A translator with attention keeps its quality on long sentences, where one without it loses the thread.",
    shows="two networks, your own sentence (--sentence), quality by length, and what each word was made from",
    run=run,
    takes_sentence=True,
)
