"""Attention gives a soft word alignment for free, diagonal where word order agrees and crossing where it does not.

AER = 1 - (|A ∩ S| + |A ∩ P|) / (|A| + |S|)      A: each target word linked to the source word it looks at most

A translator with attention is trained on the phrasebook, which never shows it a link, and its weights are
measured against the links that the phrasebook's grammar knows. Beside it stand links drawn at random, the diagonal, and
a classic aligner that learns from the same sentences (`harken.metrics.ibm`; eflomal too, where it is installed).
"Crossing" are the links that cross another one: adjectives behind their nouns, pronouns before verbs.

`--data MODEL SOURCE TARGET LINKS` (each after a --data) asks a model folder of yours about a gold set: two aligned
files and their links, `i-j` sure and `ipj` or `i?j` possible, counted from 0 or 1. Bahdanau et al. (2015), part 5.2.1.

>>> sorted(crossing({(0, 0), (1, 2), (2, 1)}))
[(1, 2), (2, 1)]
"""

from __future__ import annotations

import random
import re
import tempfile
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from harken.data.text.pairs import Alignment, Link, Pair
from harken.errors import UserError
from harken.inspection.figure import Bars, Figure, Group
from harken.lab.experiment import Cell, Experiment, Findings, Part, Progress, Settings, Sizes, grade
from harken.metrics.alignment import alignment_score

RIGHT = 0.25  # the most that the error of attention may be
HALF = 0.5  # and it is at most this share of the better of random and diagonal links
CROSSED = 0.6  # of the links that cross, attention must find this share
SIZES: Sizes = {"pairs": (30_000, 200), "updates": (2200, 3), "tests": (0, 50)}


def crossing(links: Collection[Link]) -> set[Link]:
    """Links that cross another: one's source word is further left and its target word further right."""
    return {link for link in links if any((link[0] - other[0]) * (link[1] - other[1]) < 0 for other in links)}


def drawn(pairs: Sequence[Pair], seed: int) -> list[list[Link]]:
    """Every target word with any source word."""
    draw = random.Random(seed)
    return [[(draw.randrange(len(pair.source.split())), j) for j in range(len(pair.target.split()))] for pair in pairs]


def diagonal(pairs: Sequence[Pair]) -> list[list[Link]]:
    """Every target word with the source word at the same share of the sentence."""
    links = []
    for pair in pairs:
        size, length = len(pair.source.split()), len(pair.target.split())
        links.append([(min(size - 1, int((j + 0.5) * size / length)), j) for j in range(length)])
    return links


def recall_of(hypotheses: Sequence[Collection[Link]], references: Sequence[Collection[Link]]) -> float:
    """The share of wanted links that were found; nan where none is wanted."""
    total = sum(len(links) for links in references)
    hit = sum(len(set(links) & set(reference)) for links, reference in zip(hypotheses, references, strict=True))
    return hit / total if total else float("nan")


def judge(errors: dict[str, float], crossed: dict[str, float]) -> tuple[bool | None, str]:
    """Alignment error and share of crossing links found, of "attention", "random", "diagonal" and the others."""
    blind = min(errors["random"], errors["diagonal"])
    others = ", ".join(f"{name} {value:.3f}" for name, value in errors.items() if name != "attention")
    verdict = (
        f"alignment error of attention {errors['attention']:.3f} ({others}); of the links that cross it finds "
        f"{crossed['attention']:.0%}, the diagonal {crossed['diagonal']:.0%}"
    )
    aligned = errors["attention"] <= min(RIGHT, HALF * blind)
    crosses = crossed["attention"] >= CROSSED
    return grade(aligned and crosses, errors["attention"] < blind), verdict


def run(settings: Settings, progress: Progress) -> Findings:
    """Train or load, align, and compare."""
    if settings.files:
        model, pairs, training, where = _given(settings.files)
    else:
        model, pairs, training, where = _trained(settings, progress)
    progress(0.8, "aligning")
    links: dict[str, list[list[Link]]] = {
        "attention": _attended(model, pairs),
        "random": drawn(pairs, settings.seed),
        "diagonal": diagonal(pairs),
        "IBM 1": _classic(training, pairs),
    }
    eflomal = _eflomal(training, pairs)
    if eflomal is not None:
        links["eflomal"] = eflomal
    gold = [pair.alignment for pair in pairs if pair.alignment is not None]
    crossed_gold = [crossing(truth.sure) for truth in gold]
    straight_gold = [set(truth.sure) - crossing(truth.sure) for truth in gold]
    scores = {name: alignment_score(hypotheses, gold) for name, hypotheses in links.items()}
    errors = {name: score.error_rate for name, score in scores.items()}
    crossed = {name: recall_of(hypotheses, crossed_gold) for name, hypotheses in links.items()}
    straight = {name: recall_of(hypotheses, straight_gold) for name, hypotheses in links.items()}
    holds, verdict = judge(errors, crossed)
    rows: list[list[Cell]] = [
        [
            name,
            *(f"{value:.3f}" for value in (errors[name], scores[name].precision, scores[name].recall)),
            *(f"{value:.1%}" for value in (straight[name], crossed[name])),
        ]
        for name in links
    ]
    columns = ["links by", "alignment error", "precision", "recall", "of parallel links", "of crossing links"]
    names = list(links)
    panels = [
        Bars("Alignment error", "", "AER, 0 is perfect", names, [Group("error", [errors[name] for name in names])]),
        Bars(
            "Sure links found",
            "",
            "share",
            names,
            [
                Group("that cross no other", [straight[name] for name in names]),
                Group("that cross", [crossed[name] for name in names]),
            ],
        ),
    ]
    sure = sum(len(truth.sure) for truth in gold)
    note = f"{where}; {len(pairs):,} pairs with {sure:,} sure links, {sum(map(len, crossed_gold)):,} of which cross."
    figure = Figure("Word alignment: attention beside those that look for it", panels, note)
    measured: dict[str, Any] = {"errors": errors, "crossing": crossed, "parallel": straight, "pairs": len(pairs)}
    return Findings(columns, rows, holds, verdict, figure, measured)


def _trained(settings: Settings, progress: Progress) -> tuple[Any, list[Pair], list[tuple[str, str]], str]:
    """A translator of the phrasebook, trained here."""
    from harken.api import train
    from harken.data.text.parallel import read_corpus
    from harken.recipe import load_recipe

    progress(0.05, "training a translator")
    size, steps, tests = settings.resolve(SIZES)
    overrides = [f"data.size={size}", "train.max_minutes=none", f"train.max_steps={steps}", "train.precision=float32"]
    overrides += [f"train.validate_every={steps}", "train.validate_sentences=50", f"train.seed={settings.seed}"]
    recipe = load_recipe("phrasebook-attention", [*overrides, f"train.checkpoint_every={steps}"])
    corpus = read_corpus(recipe.data)
    with tempfile.TemporaryDirectory() as folder:
        model = train(recipe, Path(folder) / "model", progress=False)
    pairs = list(corpus.tests["test"])[: tests or None]
    training = [(pair.source, pair.target) for pair in corpus.train]
    return model, pairs, training, f"phrasebook, {steps:,} updates on {len(training):,} pairs"


def _given(files: Sequence[Path]) -> tuple[Any, list[Pair], list[tuple[str, str]], str]:
    """A user's model and gold set."""
    from harken.api import load
    from harken.data.io.files import read_lines
    from harken.data.text.parallel import read_corpus

    if len(files) != 4:
        raise UserError(f"alignment takes a --data each for MODEL, SOURCE, TARGET and LINKS; {len(files)} were given")
    folder, *texts = files
    model = load(folder)
    sources, targets, links = (list(read_lines(path)) for path in texts)
    if not len(sources) == len(targets) == len(links):
        counts = ", ".join(f"{len(lines):,}" for lines in (sources, targets, links))
        raise UserError(f"{', '.join(map(str, texts))} have {counts} lines; a gold set has as many in each")
    pairs = gold_pairs(sources, targets, links)
    training = [(pair.source, pair.target) for pair in read_corpus(model.recipe.data).train]
    return model, pairs, training, f"{folder.name} on {texts[2].name}"


def gold_pairs(sources: Sequence[str], targets: Sequence[str], links: Sequence[str]) -> list[Pair]:
    """Sentences with their gold links; counted from 1 where no link anywhere has a 0, and outside links left out."""
    read = [re.findall(r"(\d+)([-?pP])(\d+)", line) for line in links]
    first = 0 if any("0" in (i, j) for line in read for i, _, j in line) else 1
    pairs = []
    for source, target, line in zip(sources, targets, read, strict=True):
        size, length = len(source.split()), len(target.split())
        numbers = [(int(i) - first, int(j) - first, kind == "-") for i, kind, j in line]
        inside = [(i, j, sure) for i, j, sure in numbers if 0 <= i < size and 0 <= j < length]
        truth = Alignment(frozenset((i, j) for i, j, sure in inside if sure), frozenset((i, j) for i, j, _ in inside))
        if size and length:
            pairs.append(Pair(source.strip(), target.strip(), truth))
    return pairs


def _attended(model: Any, pairs: Sequence[Pair], batch: int = 64) -> list[list[Link]]:
    links: list[list[Link]] = []
    for start in range(0, len(pairs), batch):
        part = pairs[start : start + batch]
        aligned = model.align_all([pair.source for pair in part], [pair.target for pair in part])
        if aligned[0].attention is None:
            raise UserError("the model has no attention to read links from; give one that has")
        links += [list(result.alignment()) for result in aligned]
    return links


def _classic(training: list[tuple[str, str]], pairs: Sequence[Pair]) -> list[list[Link]]:
    from harken.metrics.ibm import align

    return align(training, [(pair.source, pair.target) for pair in pairs])


def _eflomal(training: list[tuple[str, str]], pairs: Sequence[Pair]) -> list[list[Link]] | None:
    """Östling and Tiedemann (2016), where it is installed."""
    try:
        from eflomal import Aligner
    except ImportError:
        return None
    texts = [*training, *((pair.source, pair.target) for pair in pairs)]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "links.txt"
        sides = ([f"{text[side].lower()}\n" for text in texts] for side in (0, 1))
        Aligner().align(*sides, links_filename_fwd=str(out), quiet=True)
        lines = out.read_text().splitlines()[len(training) :]
    return [[(int(i), int(j)) for i, j in (item.split("-") for item in line.split())] for line in lines]


EXPERIMENT = Experiment(
    name="alignment",
    statement="Attention gives a soft word alignment for free, diagonal where word order agrees and crossing where it "
    "does not.",
    shows="links from attention against gold ones, beside random, the diagonal and a classic aligner",
    run=run,
    parts=(
        Part(
            "empirical",
            "links from attention have at most half of the error of blind ones, and find most crossing links",
        ),
    ),
    sizes=SIZES,
    takes_files=True,
)
