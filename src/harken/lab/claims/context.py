"""ELMo gives "stick" different vectors in "give me the stick" and "let's stick to".

type vectors    v("stick") is one vector, so every two places have the cosine 1
ELMo      layers 0: the word alone, 1 and 2: the word where it stands

Six words of a made text have two senses each (`harken.data.synthetic.two_senses`). For every word, two places with the
same sense should be closer than two with different senses; only pairs that share no word of the topic are counted, so
that it does not help to see the same neighbours. The number is the chance that they are, over all such pairs of pairs
(the area under the curve), averaged over the words: one half where vectors know nothing. Measured on sentences that
were held out of the text, layer by layer, with several seeds, and in the same network before it has learnt.

>>> judge({"0": [0.5], "1": [0.93], "2": [0.9], "mean": [0.92]}, {"0": [0.5], "1": [0.6], "2": [0.6], "mean": [0.6]})[0]
True
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from harken.data.synthetic.two_senses import Made, sentences
from harken.inspection.figure import Bars, Figure, Group, Mark
from harken.lab.claims.distances import area
from harken.lab.experiment import Cell, Experiment, Findings, Part, Progress, Settings, Sizes, grade

TOLD = 0.8  # the area that both upper layers and their mean must reach, in every seed
NOTHING = 1e-3  # the lowest layer must lie within this of one half
GAIN = 0.1  # what training must add to the mean over untrained vectors, on average
LAYERS = ("0", "1", "2", "mean")
SIZES: Sizes = {
    "seeds": (3, 1),
    "sentences": (8000, 400),
    "held_out": (400, 60),
    "width": (48, 16),
    "updates": (500, 20),
}
EXAMPLES = (
    "the dog dropped a stick by the tree",
    "her fox hid this stick near a bench",
    "the judges will stick to the plan",
)


def judge(trained: dict[str, list[float]], untrained: dict[str, list[float]]) -> tuple[bool | None, str]:
    """Layer -> the area with each seed, after and before training."""
    mean, before = (float(np.mean(areas["mean"])) for areas in (trained, untrained))
    verdict = (
        f"two places with one sense are closer than two with different senses in {np.mean(trained['1']):.1%} (layer 1) "
        f"and {np.mean(trained['2']):.1%} (layer 2) of cases, {mean:.1%} for the mean of the layers, "
        f"{np.mean(trained['0']):.1%} for the word alone, {before:.1%} before training"
    )
    blind = all(abs(value - 0.5) <= NOTHING for value in trained["0"])
    apart = all(min(trained[layer]) >= TOLD for layer in LAYERS[1:])
    return grade(blind and apart and mean - before >= GAIN, blind and mean > 0.5 + GAIN), verdict


def areas_of(examples: list[Made], vectors: np.ndarray) -> dict[str, float]:
    """For each word the area of its vectors (N, W), one a sentence; words whose pairs are too few are left out."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    cosines = (vectors / np.maximum(lengths, 1e-12)) @ (vectors / np.maximum(lengths, 1e-12)).T
    cosines = cosines.round(6)  # equal vectors have equal cosines, whatever the order of sums
    same: dict[str, list[float]] = {}
    other: dict[str, list[float]] = {}
    for i, j in combinations(range(len(examples)), 2):
        if examples[i].word == examples[j].word and not examples[i].topic & examples[j].topic:
            (same if examples[i].sense == examples[j].sense else other).setdefault(examples[i].word, []).append(
                cosines[i, j]
            )
    return {word: area(np.array(same[word]), np.array(other[word])) for word in sorted(same) if word in other}


def run(settings: Settings, progress: Progress) -> Findings:
    """A small ELMo for each seed, before and after it has read the text."""
    trained: dict[str, list[float]] = {layer: [] for layer in LAYERS}
    untrained: dict[str, list[float]] = {layer: [] for layer in LAYERS}
    by_word: dict[str, dict[str, list[float]]] = {layer: {} for layer in LAYERS}
    seeds, *small = settings.resolve(SIZES)
    cosines, losses = [], []
    for number in range(seeds):
        result = _measure(settings.seed + number, *small)
        for layer in LAYERS:
            trained[layer].append(float(np.mean(list(result["after"][layer].values()))))
            untrained[layer].append(float(np.mean(list(result["before"][layer].values()))))
            for word, value in result["after"][layer].items():
                by_word[layer].setdefault(word, []).append(value)
        cosines.append(result["examples"])
        losses.append(result["losses"])
        progress((number + 1) / seeds, f"seed {settings.seed + number}: mean of the layers {trained['mean'][-1]:.1%}")
    holds, verdict = judge(trained, untrained)
    names = {"0": "0, the word alone", "1": "1", "2": "2", "mean": "mean of all"}
    rows: list[list[Cell]] = [
        [
            names[layer],
            f"{np.mean(trained[layer]):.1%}",
            f"{min(trained[layer]):.1%}",
            f"{np.mean(untrained[layer]):.1%}",
            f"{min(float(np.mean(values)) for values in by_word[layer].values()):.1%}",
        ]
        for layer in LAYERS
    ]
    columns = ["layer", "one sense closer", "least seed", "untrained", "least word"]
    groups = [
        Group(name, *([float(of(areas[layer])) for layer in LAYERS] for of in (np.mean, min, max)))
        for name, areas in (("trained", trained), ("untrained", untrained))
    ]
    marks = [Mark(0.5, "knows nothing"), Mark(TOLD, "threshold")]
    panel = Bars("", "layer", "one sense closer", [names[layer] for layer in LAYERS], groups, marks=marks)
    near, far = (float(np.mean([row[at] for row in cosines])) for at in (0, 1))
    note = (
        f'Mean of the layers: "stick" in "{EXAMPLES[0]}" has the cosine {near:.2f} with "{EXAMPLES[1]}" '
        f'and {far:.2f} with "{EXAMPLES[2]}", mean of the seeds; a vector of the word alone has 1 with both.'
    )
    figure = Figure("Are two places with one sense closer than two with different senses?", [panel], note)
    measured: dict[str, Any] = {
        "trained": trained,
        "untrained": untrained,
        "words": by_word,
        "stick": {"sentences": EXAMPLES, "cosines of the first with the others": cosines},
        "losses": losses,
    }
    return Findings(columns, rows, holds, verdict, figure, measured)


def _measure(seed: int, count: int, tests: int, width: int, steps: int) -> dict[str, Any]:
    """Areas by layer and word before and after training, the cosines of the examples, first and last loss."""
    import torch

    from harken.lab.helpers import learn
    from harken.models.language.config import ElmoConfig
    from harken.models.language.elmo import ElmoNetwork
    from harken.tasks.elmo.task import ElmoRows, learn_vocabulary

    held_out = {example.words: example for example in sentences(tests, seed + 1000, peers=0.0)}
    test = list(held_out.values())
    text = [example for example in sentences(count, seed) if example.words not in held_out]
    vocabulary = learn_vocabulary([example.words for example in text], 1000, 1)
    rows = ElmoRows.of([example.words for example in text], vocabulary)
    torch.manual_seed(seed)
    config = ElmoConfig.model_validate({"width": width, "character_embedding": 16, "character_width": width})
    model = ElmoNetwork(config, vocabulary.word_count, vocabulary.character_count)

    def vectors(words: list[tuple[str, ...]], indices: list[int]) -> dict[str, np.ndarray]:
        with torch.no_grad():
            batch = ElmoRows.of(words, vocabulary).gather(np.arange(len(words)))
            layers = model.eval().layers_of(*batch)[:, torch.arange(len(words)), torch.tensor(indices) + 1].numpy()
        return {"0": layers[0], "1": layers[1], "2": layers[2], "mean": layers.mean(0)}

    def areas() -> dict[str, dict[str, float]]:
        by_layer = vectors([example.words for example in test], [example.position for example in test])
        return {layer: areas_of(test, values.astype(np.float64)) for layer, values in by_layer.items()}

    def loss(step: int) -> torch.Tensor:
        model.train()
        batch, lengths = rows.gather(np.random.default_rng([seed, step]).integers(0, len(rows), 64))
        return model.loss(batch, lengths) / int(2 * (lengths - 1).sum())

    before = areas()
    losses = learn(model, loss, steps=steps, rate=5e-3)
    split = [tuple(example.split()) for example in EXAMPLES]
    stick = vectors(split, [words.index("stick") for words in split])["mean"]
    stick = stick / np.linalg.norm(stick, axis=1, keepdims=True)
    return {
        "before": before,
        "after": areas(),
        "examples": [float(stick[0] @ stick[1]), float(stick[0] @ stick[2])],
        "losses": [losses[0], losses[-1]],
    }


EXPERIMENT = Experiment(
    name="context",
    statement='ELMo gives "stick" different vectors in "give me the stick" and "let\'s stick to".',
    shows="whether a word's vectors in context tell its senses apart, layer by layer, from an ELMo trained here",
    run=run,
    parts=(
        Part("arithmetic", "a vector of the word alone is the same in every sentence"),
        Part("empirical", "vectors of the upper layers tell the senses of a word apart"),
    ),
    sizes=SIZES,
)
