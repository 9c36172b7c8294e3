"""Sequence-level knowledge distillation: a teacher translates sources, and a student learns from that.

    L(student) = - sum over x of log P_student(y' | x)         y' = the teacher's beam search of x

The teacher's translations are more alike than those of people, so that a smaller and faster network can learn them.
Kim and Rush (2016), "Sequence-Level Knowledge Distillation".

Translations are lines of translations.jsonl as soon as they are there, so that a run that was stopped goes on after the
last. Those that are probable enough become the pairs: train.source and train.target; valid.* and the tests keep their
own references.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from harken.data.text.config import DataConfig
from harken.data.text.dependency_heads import write_heads
from harken.data.text.inputs import source_inputs
from harken.data.text.pairs import Corpus, Pair
from harken.data.text.parallel import read_corpus
from harken.data.text.scripts import estimate_words
from harken.errors import UserError
from harken.files import atomic_write, expand_user
from harken.models.config import TransformerConfig
from harken.tasks.translate.files.output_file import Format, OutputFile, record_of, translate_to_file
from harken.tasks.translate.recipe import AdaptConfig, TranslateRecipe
from harken.training.config import TrainConfig
from harken.training.folder import LOCK, RunLock

if TYPE_CHECKING:
    from harken.tasks.translate.translator import Translator

LINES, TRANSLATIONS, SOURCE, TARGET = "sources.txt", "translations.jsonl", "train.source", "train.target"
KEPT = ("lowercase", "source_heads", "max_line_bytes", "skip_empty", "seed")  # keys of the teacher's [data]
SETTINGS = ("batch_tokens", "accumulate", "optimizer", "label_smoothing", "validate_sentences", "seed")  # kept for int8
MACHINE = ("device", "precision", "workers", "threads")  # keys of [train] that are chosen for a machine
SIZES: dict[str, dict[str, Any]] = {  # of students: the network, and its vocabulary
    "tiny": {"width": 256, "heads": 4, "feedforward": 1024, "vocabulary": 8000},
    "small": {"width": 384, "heads": 6, "feedforward": 1536, "vocabulary": 16000},
    "base": {"width": 512, "heads": 8, "feedforward": 2048, "vocabulary": 32000},
}
SHORTLIST = 100  # target tokens for each source token, of these students
COMPARED = 1000  # pairs at most that teacher and student are measured on


def distil_pairs(
    teachers: Sequence[Translator],
    folder: Path,
    *,
    sources: Path | None = None,
    nbest: int = 1,
    min_score: float | None = None,
    resume: bool = False,
    weights: Sequence[float] | None = None,
    progress: Callable[[int, int], None] | None = None,
    **search: Any,
) -> DataConfig:
    """Translate sources into `folder`; the `[data]` table of the student.

    Args:
        teachers: one, or an ensemble with the same vocabularies.
        sources: file of the sentences to translate; by default the first teacher's training data is.
        nbest: translations of each sentence, all of which become pairs.
        min_score: of a translation, as the search ranks it; those below are left out.
        resume: go on with the pairs of a run that was stopped.
        weights: of the teachers.
        progress: called with the sentences that are done and their number.
        search: keys of the teacher's [search] table, such as `beam=5` or `mbr="chrf"`; on a GPU the default of
            `precision` is "auto", bfloat16.

    Raises:
        UserError: the folder is not empty, its translations are of other teachers, data or options, the teacher has no
            training data and no sources are given, or no translation is left.
    """
    first = teachers[0]
    options = {name: value for name, value in search.items() if value is not None}
    if first.device.type == "cuda":  # in float32 the caches of few shapes fit, and most batches capture a search anew
        options.setdefault("precision", "auto")
    first.request(nbest, ensemble=teachers[1:], weights=weights, **options)  # refuses what does not fit
    corpus = read_corpus(first.recipe.data) if has_data(first.recipe) else None
    if sources is not None:
        lines = [line.strip() for line in source_inputs(expand_user(sources), first.recipe.data).values if line.strip()]
    elif corpus is not None:
        lines = [_line(pair) for pair in corpus.train]
    else:
        raise UserError(
            f"{first.folder} has no training data of its own, as it was adopted; name a file of sentences to translate"
        )
    if folder.is_file():
        raise UserError(f"{folder}, the place for the distilled pairs, is a file; choose another --out")
    with RunLock(folder):  # two runs would write into each other's file
        if not resume and any(path.name != LOCK for path in folder.iterdir()):
            raise UserError(f"{folder}, the place for the distilled pairs, is not empty; add --resume, or delete it")
        _write(folder / LINES, lines)
        settings = {**options, "nbest": nbest, "weights": weights and list(weights)}
        folders = [teacher.folder for teacher in teachers if teacher.folder is not None]
        record = record_of(first, folders, folder / LINES, settings, resume)
        output = OutputFile(folder / TRANSLATIONS, record, resume, grouped=False, report=lambda _: None)
        report = None if progress is None else lambda done: progress(done, len(lines))
        form = Format(as_json=True)
        options |= {"ensemble": teachers[1:], "weights": weights}
        translate_to_file(first, lines, output, form.text, nbest, report, **options)
        pairs = list(_pairs(folder / TRANSLATIONS, min_score))
        if not pairs:
            raise UserError(f"no translation in {folder} has a score of {min_score} or more; lower --min-score")
        for name, side in ((SOURCE, 0), (TARGET, 1)):
            _write(folder / name, (pair[side] for pair in pairs))
        for name, part in {} if corpus is None else {"valid": corpus.valid, **corpus.tests}.items():
            _write(folder / f"{name}.source", map(_line, part))
            _write(folder / f"{name}.target", (pair.target for pair in part))
        if progress is not None:
            progress(len(lines), len(lines))
    return _data(first.recipe.data, folder, corpus)


def has_data(recipe: TranslateRecipe) -> bool:
    """Whether a translator was trained on data that its recipe names; an adopted one was not."""
    return bool(recipe.data.corpus or recipe.data.source or recipe.data.dir)


def sized_recipe(size: str) -> dict[str, Any]:
    """The tables of a student of a size, with a vocabulary of its own.

    Raises:
        UserError: an unknown size.

    >>> tables = sized_recipe("tiny")
    >>> tables["model"]["width"], tables["model"]["decoder_mixer"], tables["tokenizer"]["size"]
    (256, 'ssru', 8000)
    """
    if size not in SIZES:
        raise UserError(f"--size {size} is not known; choose from {', '.join(SIZES)}")
    shape = dict(SIZES[size])
    return {
        "task": "translate",
        "data": {},
        "tokenizer": {"kind": "bpe", "size": shape.pop("vocabulary"), "joint": True},
        "model": {
            "architecture": "transformer",
            "encoder_layers": 6,
            "decoder_layers": 2,
            "decoder_mixer": "ssru",
            "tied": "all",
            **shape,
        },
        "search": {"beam": 1, "shortlist": SHORTLIST},
    }


HEADINGS = ("model", "precision", "BLEU", "chrF", "MB", "words/s")


def compare(teacher: Translator, student: Translator) -> tuple[str, list[tuple[str, ...]]]:
    """Measure a teacher and its student, and the student in int8: what on, and rows as `HEADINGS` says.

    The pairs are the first of the student's test data, or of its validation data where there is none. Both search as
    their recipes say. Sizes are those of the weights; in int8, matrices have a byte for each weight.
    """
    corpus = read_corpus(student.recipe.data)
    name, pairs = next(iter(corpus.tests.items()), ("valid", corpus.valid))
    rows = list[tuple[str, ...]]()
    precisions: tuple[Literal["float32", "int8"], ...] = ("float32", "float32", "int8")
    models = (("teacher", teacher), ("student", student), ("student", student))
    for (called, model), precision in zip(models, precisions, strict=True):
        model.prepare()
        model.evaluate(pairs[:2], precision=precision)  # packs the weights
        result = model.evaluate(pairs[:COMPARED], precision=precision)
        sizes = [
            (1 if precision == "int8" and part.dim() > 1 else 4) * part.numel() for part in model.model.parameters()
        ]
        speed = sum(map(estimate_words, result.hypotheses)) / max(result.seconds, 1e-9)
        scores = f"{result.bleu.value:.2f}", f"{result.chrf.value:.2f}"
        rows.append((called, precision, *scores, f"{sum(sizes) / 1e6:.1f}", f"{speed:,.0f}"))
    return f"{min(len(pairs), COMPARED):,} pairs of {name}", rows


def student_recipe(teacher: TranslateRecipe) -> TranslateRecipe:
    """The recipe of a student where none is given: the teacher's, with a deep encoder and a recurrent decoder.

    Width, heads and feed-forward layer are those of a teacher that is a Transformer; search is greedy.

    >>> recipe = student_recipe(TranslateRecipe(data={"corpus": "phrasebook"}))
    >>> recipe.model.encoder_depth, recipe.model.decoder_depth, recipe.model.decoder_mixer, recipe.search.beam
    (6, 2, 'ssru', 1)
    """
    given: dict[str, Any] = {"tied": teacher.model.tied}
    if isinstance(teacher.model, TransformerConfig):
        given = teacher.model.model_dump(exclude_unset=True, exclude={"decoder", "alignment_layer", "alignment_heads"})
    depths = {"encoder_layers": max(6, getattr(teacher.model, "encoder_depth", 0)), "decoder_layers": 2}
    model = TransformerConfig.model_validate({**given, **depths, "decoder_mixer": "ssru"})
    search = teacher.search.model_copy(update={"beam": 1})
    machine = {name: TrainConfig.model_fields[name].default for name in MACHINE}
    train = teacher.train.model_copy(update=machine)  # not the machine that the teacher was trained on
    adapt = AdaptConfig.model_validate({})  # a start of the teacher has another network
    return teacher.model_copy(update={"model": model, "search": search, "train": train, "adapt": adapt})


def int8_recipe(student: TranslateRecipe, asked: TrainConfig, folder: Path) -> dict[str, Any]:
    """The tables of one more epoch of a student, with products rounded as int8 decoding rounds them.

    Args:
        student: the recipe that it was trained by.
        asked: the same before it was resolved for a machine.
        folder: of the student.

    >>> recipe = TranslateRecipe(data={"corpus": "phrasebook"}, train={"batch_tokens": 512, "learning_rate": 0.01})
    >>> int8_recipe(recipe, TrainConfig(device="cpu"), Path("runs/student"))["train"]["max_epochs"]
    1
    """
    machine = asked.model_dump(mode="json", include=set(MACHINE), exclude_unset=True)
    train = {**{name: getattr(student.train, name) for name in SETTINGS}, **machine, "max_epochs": 1}
    adapt = {"start": str(folder.resolve()), "int8": True}
    return {"task": "translate", "data": student.data.model_dump(mode="json"), "adapt": adapt, "train": train}


def _pairs(path: Path, min_score: float | None) -> Iterator[tuple[str, str]]:
    """Sources and their translations that are probable enough; equal ones once."""
    with open(path, encoding="utf-8") as file:
        for entry in map(json.loads, file):
            scored = [(best["text"], best["score"]) for best in entry["translations"]]
            for text in dict.fromkeys(text for text, score in scored if min_score is None or score >= min_score):
                yield entry["source"], text


def _data(teacher: DataConfig, folder: Path, corpus: Corpus | None) -> DataConfig:
    """The files of the folder as a `[data]` table."""

    def files(name: str) -> dict[str, str]:
        return {
            "source": str((folder / f"{name}.source").resolve()),
            "target": str((folder / f"{name}.target").resolve()),
        }

    return DataConfig.model_validate(
        {
            **files("train"),
            "valid": None if corpus is None else files("valid"),
            "test": None if corpus is None else {name: files(name) for name in corpus.tests} or None,
            "format": "text",
            "name": f"{'sources' if corpus is None else corpus.name}, distilled",
            "source_language": teacher.source_language if corpus is None else corpus.source_language,
            "target_language": teacher.target_language if corpus is None else corpus.target_language,
            **{key: getattr(teacher, key) for key in KEPT},
        }
    )


def _line(pair: Pair) -> str:
    return " ".join(write_heads(pair.source, pair.heads).split("\n"))


def _write(path: Path, lines: Iterable[str]) -> None:
    atomic_write(path, "".join(f"{' '.join(line.splitlines())}\n" for line in lines))
