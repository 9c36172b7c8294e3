"""Sequence-level knowledge distillation: a teacher translates its training sources, and a student learns from that.

    L(student) = - sum over x of log P_student(y' | x)         y' = the teacher's beam search of x

The teacher's translations are more alike than those of people, so that a smaller and faster network can learn them.
Kim and Rush (2016), "Sequence-Level Knowledge Distillation".

The pairs are files of a folder: train.source and train.target, valid.* and the tests with their own references, and
distill.json, which says what they were made from. Translations are appended to train.target.partial, so that a run that
was stopped goes on after its last line.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harken.data.text.config import DataConfig
from harken.data.text.dependency_heads import write_heads
from harken.data.text.pairs import Corpus, Pair
from harken.data.text.parallel import read_corpus
from harken.errors import UserError
from harken.files import atomic_write
from harken.models.config import TransformerConfig
from harken.tasks.translate.recipe import TranslateRecipe
from harken.training.config import TrainConfig
from harken.training.folder import LOCK, MODEL, RunLock

if TYPE_CHECKING:
    from harken.tasks.translate.translator import Translator

RECORD, SOURCE, TARGET = "distill.json", "train.source", "train.target"
PARTIAL = f"{TARGET}.partial"
BATCHES = 16  # that are translated before their lines are written
GPU_BATCH = 512  # sentences; of a CPU as `search.batch_sentences` says
KEPT = ("lowercase", "source_heads", "max_line_bytes", "skip_empty", "seed")  # keys of the teacher's [data]


def distil_pairs(
    teachers: Sequence[Translator],
    folder: Path,
    *,
    resume: bool = False,
    weights: Sequence[float] | None = None,
    progress: Callable[[int, int], None] | None = None,
    **search: Any,
) -> DataConfig:
    """Translate the training sources of the first teacher into `folder`; the `[data]` table of the student.

    Args:
        teachers: one, or an ensemble with the same vocabularies.
        resume: go on with the pairs of a run that was stopped.
        weights: of the teachers.
        progress: called with the sentences that are done and their number.
        search: keys of the teacher's [search] table, such as `beam=5`.

    Raises:
        UserError: the folder is not empty, or its pairs are of other teachers, data or options.
    """
    first = teachers[0]
    search = {name: value for name, value in search.items() if value is not None}
    request = first.request(ensemble=teachers[1:], weights=weights, **search)  # refuses what does not fit
    corpus = read_corpus(first.recipe.data)
    lines = [_line(pair) for pair in corpus.train]
    record = {
        "teachers": [_digest_of_file(teacher.folder / MODEL) for teacher in teachers if teacher.folder is not None],
        "weights": None if weights is None else list(weights),
        "search": request.config.model_dump(mode="json", exclude={"batch_sentences"}),
        "sources": hashlib.sha256("\n".join(lines).encode()).hexdigest(),
        "pairs": len(lines),
    }
    size = GPU_BATCH if first.device.type == "cuda" else request.config.batch_sentences
    options = {**search, "ensemble": teachers[1:], "weights": weights, "batch_sentences": size, "attention": False}
    if folder.is_file():
        raise UserError(f"{folder}, the place for the distilled pairs, is a file; choose another --out")
    with RunLock(folder):  # two runs would write into each other's file
        _begin(folder, record, corpus, lines, resume)
        _translate(first, lines, folder, BATCHES * size, options, progress)
    return _data(first.recipe.data, folder, corpus)


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
    machine = {name: TrainConfig.model_fields[name].default for name in ("device", "precision", "workers", "threads")}
    train = teacher.train.model_copy(update=machine)  # not the machine that the teacher was trained on
    return teacher.model_copy(update={"model": model, "search": search, "train": train})


def _begin(folder: Path, record: dict[str, Any], corpus: Corpus, lines: Sequence[str], resume: bool) -> None:
    """Write everything but the translations; or check that a run which was stopped has the same."""
    if resume and (folder / RECORD).is_file():
        try:
            known = json.loads((folder / RECORD).read_text(encoding="utf-8"))
        except ValueError:
            known = {}
        changed = [key for key in record if known.get(key) != record[key]] if isinstance(known, dict) else [*record]
        if changed:
            raise UserError(
                f"{folder} holds pairs that were distilled with other {' and '.join(changed)}; choose another --out, "
                "or delete the folder"
            )
        return
    if not resume and any(path.name != LOCK for path in folder.iterdir()):
        raise UserError(f"{folder}, the place for the distilled pairs, is not empty; add --resume, or delete it")
    _write(folder / SOURCE, lines)
    for name, pairs in {"valid": corpus.valid, **corpus.tests}.items():
        _write(folder / f"{name}.source", map(_line, pairs))
        _write(folder / f"{name}.target", (pair.target for pair in pairs))
    atomic_write(folder / RECORD, json.dumps(record, indent=1, ensure_ascii=False) + "\n")


def _translate(
    teacher: Translator,
    lines: Sequence[str],
    folder: Path,
    size: int,
    options: dict[str, Any],
    progress: Callable[[int, int], None] | None,
) -> None:
    """Append translations until there is one for each line; then the file gets its name."""
    if (folder / TARGET).is_file():
        return
    partial = folder / PARTIAL
    text = partial.read_bytes() if partial.is_file() else b""
    whole = text[: text.rfind(b"\n") + 1]  # a line that was cut off is translated again
    done = whole.count(b"\n")
    partial.touch()
    with open(partial, "r+b") as out:
        out.truncate(len(whole))
        out.seek(len(whole))
        while done < len(lines):
            if progress is not None:
                progress(done, len(lines))
            translations = teacher.translate(list(lines[done : done + size]), **options)
            out.write("".join(f"{' '.join(translation.text.splitlines())}\n" for translation in translations).encode())
            out.flush()
            done += len(translations)
    partial.rename(folder / TARGET)
    if progress is not None:
        progress(done, len(lines))


def _data(teacher: DataConfig, folder: Path, corpus: Corpus) -> DataConfig:
    """The files of the folder as a `[data]` table."""

    def files(name: str) -> dict[str, str]:
        return {
            "source": str((folder / f"{name}.source").resolve()),
            "target": str((folder / f"{name}.target").resolve()),
        }

    return DataConfig.model_validate(
        {
            **files("train"),
            "valid": files("valid"),
            "test": {name: files(name) for name in corpus.tests} or None,
            "format": "text",
            "name": f"{corpus.name}, distilled",
            "source_language": corpus.source_language,
            "target_language": corpus.target_language,
            **{key: getattr(teacher, key) for key in KEPT},
        }
    )


def _line(pair: Pair) -> str:
    return " ".join(write_heads(pair.source, pair.heads).split("\n"))


def _write(path: Path, lines: Iterable[str]) -> None:
    atomic_write(path, "".join(f"{' '.join(line.splitlines())}\n" for line in lines))


def _digest_of_file(path: Path) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
