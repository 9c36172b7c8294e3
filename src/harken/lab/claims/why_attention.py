"""Why attention: two networks that differ in one key read the same sentence, which may be the reader's own.

without   P(y | x) = P(y | h_S)            every word is written from one vector, however long the sentence is
with      P(y_t | y_<t, x) = P(.. | c_t)   a vector of its own for every word: c_t = sum over s of a_ts h_s

The language is a small English, translated into French: clauses of nouns, adjectives and verbs drawn at random, so that
none can be guessed; adjectives go behind their nouns. Both networks are LSTMs of nearly the same size, trained alike
(as in `bottleneck`, with the rates tuned there). Shown are BLEU by the length of the sentence, and side by side what
each word was made from: with attention its weights a_ts; without attention, which has no weights to show,
|d log P(y_t) / d x_s|, each row normalised to sum to 1. Bahdanau et al. (2015), figures 2 and 3.

A network that cannot translate short sentences is under-trained, and its fall with length would say nothing: then the
verdict is open.

>>> translation("the black cat sees the dog")
'le chat noir voit le chien'
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from harken.inspection.figure import Figure, Lines, Mark, Series
from harken.lab.claims import bottleneck
from harken.lab.experiment import Experiment, Findings, Part, Progress, Settings, Sizes
from harken.lab.helpers import mean, parameters
from harken.lab.pool import sweep

if TYPE_CHECKING:
    from harken.tasks.translate.translator import Translator


def _pairs(text: str) -> dict[str, str]:
    return dict(pair.split(":") for pair in text.split())


NOUNS = _pairs(
    "cat:chat dog:chien duck:canard horse:cheval fish:poisson king:roi baker:boulanger doctor:médecin farmer:fermier "
    "teacher:professeur sailor:marin boy:garçon soldier:soldat painter:peintre singer:chanteur neighbor:voisin"
)
ADJECTIVES = _pairs(
    "black:noir white:blanc red:rouge green:vert blue:bleu calm:calme shy:timide famous:célèbre rich:riche sad:triste "
    "tired:fatigué blind:aveugle"
)
VERBS = _pairs(
    "sees:voit hears:entend follows:suit knows:connaît likes:aime helps:aide draws:dessine sleeps:dort sings:chante "
    "laughs:rit works:travaille waits:attend"
)
ALONE = ("sleeps", "sings", "laughs", "works", "waits")  # verbs without an object
LEXICON = {"the": "le", "and": "et", **NOUNS, **ADJECTIVES, **VERBS}

SENTENCE = "the black cat sees the tired dog and the shy king hears the famous singer"
SHORTEST, LONGEST = 3, 15  # words in a training sentence
LENGTHS = ((3, 4), (5, 7), (8, 11), (12, 15), (16, 19), (20, 24))  # tested; the last are beyond
KINDS = {"none": "without attention", "additive": "with attention"}
RATE = 4e-3
MINUTES = 4  # a slow or busy machine stops here

TRAINED = 80.0  # BLEU on the shortest sentences, below which a network counts as under-trained
BETTER = 10.0  # BLEU points by which attention is ahead at the longest trained length
SIZES: Sizes = {"pairs": (40_000, 200), "updates": (1000, 3), "tests": (100, 4), "seeds": (1, 1)}


def translation(sentence: str) -> str:
    """Word by word, an adjective behind the noun that follows it."""
    words = sentence.split()
    for at in range(len(words) - 1):
        if words[at] in ADJECTIVES and words[at + 1] in NOUNS:
            words[at], words[at + 1] = words[at + 1], words[at]
    return " ".join(LEXICON[word] for word in words)


def sentences(count: int, lengths: tuple[int, int], draw: random.Random) -> list[tuple[str, str]]:
    """Pairs of a sentence and its translation, with a number of words between the two lengths."""
    pairs: list[tuple[str, str]] = []
    while len(pairs) < count:
        words = _clause(draw)
        while len(words) < draw.randint(*lengths):
            words += ["and", *_clause(draw)]
        if lengths[0] <= len(words) <= lengths[1]:
            pairs.append((" ".join(words), translation(" ".join(words))))
    return pairs


def _clause(draw: random.Random) -> list[str]:
    def noun() -> list[str]:
        return ["the", *([draw.choice(list(ADJECTIVES))] if draw.random() < 0.5 else []), draw.choice(list(NOUNS))]

    verb = draw.choice(list(VERBS))
    return [*noun(), verb, *([] if verb in ALONE else noun())]


def train(
    kind: str, sentence: str, pairs: int, steps: int, tests: Sequence[Sequence[tuple[str, str]]], seed: int
) -> dict[str, Any]:
    """One network: BLEU by length, its translation of the sentence, and what each word of it was made from."""
    drawn = sentences(pairs, (SHORTEST, LONGEST), random.Random(seed))
    width = bottleneck.WIDTHS[kind]
    model, _ = bottleneck.train_translator(kind, width, RATE, drawn, steps, seed, max_minutes=MINUTES)
    best = model.translate(sentence, attention=True)
    weights = influence(model, best.source, best.text) if best.attention is None else best.attention
    return {
        "bleu": [bottleneck.translate(model, group)[0] for group in tests],
        "source": best.source_words,
        "translation": best.target_words,
        "unknown": best.unknown,
        "map": weights.tolist(),
        "parameters": parameters(model.model),
    }


def influence(translator: Translator, source: str, target: str) -> np.ndarray:
    """(target words, source words): how much log P of each target word changes with each source word, rows sum to 1."""
    from harken.data.tokenizers.tokens import BOS
    from harken.metrics.alignment import merge_subwords

    model: Any = translator.model
    read, written = translator.read([source]).forms[0], translator.read_targets([source], [target])[0]
    if not written.ids:
        return np.zeros((0, len(source.split())))
    ids, lengths, _ = translator.read([source]).batch([0], translator.device)
    inputs = torch.tensor([[BOS, *written.ids[:-1]]], device=translator.device)
    rows = []
    for index, token in enumerate(written.ids):  # a pass for each: kernels keep nothing for a second one backwards
        embedded = model.source_embedding(ids).detach().requires_grad_()  # (1, S, D)
        hidden = model.narrow(
            model.decoder(model.target_embedding(inputs), model._join(model.encoder(embedded, lengths)))
        )
        chosen = torch.log_softmax(model.logits(hidden).float(), -1)[0, index, token]
        rows.append(torch.autograd.grad(chosen, embedded)[0][0, : len(read.ids)].norm(dim=-1))  # (S,)
    return merge_subwords(
        torch.stack(rows).cpu().numpy(),
        translator.target.word_of(written.ids, written.text),
        translator.source.word_of(read.ids, read.text),
        len(target.split()),
        len(source.split()),
    )


def judge(bleu: dict[str, Sequence[float]]) -> tuple[bool | None, str]:
    """Kind -> BLEU by length."""
    without, with_it = bleu["none"], bleu["additive"]
    far = next(at for at, (_, last) in enumerate(LENGTHS) if last == LONGEST)
    ahead = with_it[far] - without[far]
    verdict = (
        f"at {_words(0)}, {_words(far)} (the longest trained) and {_words(-1)} BLEU is {_three(without, far)} without "
        f"attention and {_three(with_it, far)} with it"
    )
    untrained = [KINDS[kind] for kind in KINDS if bleu[kind][0] < TRAINED]
    if untrained:
        return None, f"{verdict}; the network {' and '.join(untrained)} is under-trained (below {TRAINED:.0f} at first)"
    return ahead >= BETTER, verdict


def explain(results: dict[str, dict[str, Any]], bleu: dict[str, Sequence[float]]) -> str:
    """Explain the picture in three sentences; a fourth where the reader's words are not known."""
    without, with_it = results["none"], results["additive"]
    far = next(at for at, (_, last) in enumerate(LENGTHS) if last == LONGEST)
    text = (
        f"Without attention, every word is written from one vector of {bottleneck.WIDTHS['none']} numbers, however "
        f"long the sentence is: BLEU falls from {bleu['none'][0]:.0f} at {_words(0)} to "
        f"{bleu['none'][far]:.0f} at {_words(far)}. With attention, the network looks at all source words again "
        "before it writes the next one, and the map on the right shows at which: BLEU goes from "
        f"{bleu['additive'][0]:.0f} to {bleu['additive'][far]:.0f}. The sentence becomes "
        f"“{' '.join(without['translation'])}” without attention and “{' '.join(with_it['translation'])}” with it."
    )
    if with_it["unknown"]:
        text += f" The networks know these words only: {', '.join(LEXICON)}."
    return text


def _words(at: int) -> str:
    return f"{LENGTHS[at][0]} to {LENGTHS[at][1]} words"


def _three(bleu: Sequence[float], far: int) -> str:
    return " → ".join(f"{value:.0f}" for value in (bleu[0], bleu[far], bleu[-1]))


def run(settings: Settings, progress: Progress) -> Findings:
    """Both networks at once, a core each."""
    sentence = settings.sentence or SENTENCE
    pairs, steps, most, seeds = settings.resolve(SIZES)
    draw = random.Random(settings.seed + 1000)
    tests = [sentences(most, lengths, draw) for lengths in LENGTHS]
    runs = sweep(
        lambda kind, seed: train(kind, sentence, pairs, steps, tests, seed),
        KINDS,
        settings,
        progress,
        seeds,
        lambda kind, seed: f"trained and tested {KINDS[kind]}, seed {seed}",
    )
    results = {kind: first for kind, (first, *_) in runs.items()}  # whose maps are drawn
    curves = {kind: [result["bleu"] for result in by_seed] for kind, by_seed in runs.items()}
    bleu: dict[str, Sequence[float]] = {
        kind: [mean(values) for values in zip(*by_seed, strict=True)] for kind, by_seed in curves.items()
    }
    holds, verdict = judge(bleu)
    rows: list[list[Any]] = [
        [
            f"{first} to {last}",
            "trained" if last <= LONGEST else "beyond",
            *(f"{bleu[kind][at]:.1f}" for kind in KINDS),
        ]
        for at, (first, last) in enumerate(LENGTHS)
    ]
    return Findings(
        ["words", "length was", *(f"BLEU {name}" for name in KINDS.values())],
        rows,
        holds,
        verdict,
        _figure(results, curves, steps, most),
        {"sentence": sentence, "lengths": LENGTHS, "runs": runs},
        explain(results, bleu),
    )


def _figure(results: dict[str, dict[str, Any]], curves: dict[str, list[list[float]]], steps: int, most: int) -> Figure:
    from harken.inspection.pictures.tables import UNKNOWN_NOTE, AlignmentMap

    positions, names = list(range(len(LENGTHS))), [f"{first} to {last}" for first, last in LENGTHS]
    last = sum(longest <= LONGEST for _, longest in LENGTHS)
    quality = Lines(
        "Quality by length",
        "words in the sentence",
        "BLEU",
        [Series.of_runs(name, positions, curves[kind], mean) for kind, name in KINDS.items()],
        marks=[Mark(last - 0.5, "longer than any in training", axis="x")],
        y_limits=(-2.0, 112.0),
        x_ticks=[(float(at), name) for at, name in enumerate(names)],
        names=names,
    )
    titles = {"none": "Without attention: influence by gradient", "additive": "With attention: its weights"}
    maps = [
        AlignmentMap(result["source"], result["translation"], result["map"], unknown=result["unknown"]).panel(
            titles[kind]
        )
        for kind, result in results.items()
    ]
    sizes = " and ".join(f"{result['parameters']:,}" for result in results.values())
    note = (
        f"LSTM translators of {sizes} parameters, {steps} updates each; {most} sentences of each length, greedy "
        "search. Rows of a map sum to 1: |d log P / dx| by gradient on the left, weights of attention on the right."
    )
    unknown = f" {UNKNOWN_NOTE}" if any(result["unknown"] for result in results.values()) else ""
    title = "Why attention: without it, a long sentence does not fit into one vector"
    return Figure(title, [*maps, quality], note + unknown)  # the maps in one row, the chart below them


EXPERIMENT = Experiment(
    name="why-attention",
    statement="A translator with attention keeps its quality on long sentences, where one without it loses the thread.",
    shows="two networks, your own sentence (--sentence), quality by length, and what each word was made from",
    run=run,
    parts=(Part("empirical", "at the longest trained sentences BLEU is at least 10 points higher with attention"),),
    sizes=SIZES,
    takes_sentence=True,
)
