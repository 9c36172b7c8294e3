"""A teacher and its student on a test set: BLEU and decoding speed on one CPU core, in float32 and int8.

    python benchmarks/distillation.py TEACHER STUDENT --source test.en --reference test.de --name multi30k-student

Each model searches as its recipe says; `--as-teacher` adds the student with the teacher's beam. The configurations take
turns, and each cell is the best of all rounds, since other processes may use the machine. Speed counts target words of
the outputs per second, tokenisation and encoder included; `cpu` divides by the CPU seconds of the process, the better
guide on a busy machine. `equal` is the share of translations that are equal to those in float32 with all tokens.

Where the teacher's weights are elsewhere, `--teacher-outputs` names its translations: they are scored, and for its
speed random weights of its recipe write as many tokens for every source, with as wide a beam.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import records
import torch
from records import facts_of, machine, rows_table

import harken
from harken.data.tokenizers.tokens import EOS
from harken.kernels.decoding.description import Transformer
from harken.metrics import corpus_bleu, corpus_chrf
from harken.models.build import build_model
from harken.recipe import as_recipe
from harken.search.compiled import KERNELS
from harken.search.config import SearchOptions
from harken.search.dispatch import COMPILED, DecodingCall
from harken.tasks.translate.translator import TOKENIZERS


def configurations(student: Any, teacher: Any, as_teacher: bool) -> list[tuple[str, Any, dict[str, Any]]]:
    """Name, model and options of every row; the teacher in float32 first."""
    rows = []
    for name, model in (("teacher", teacher), ("student", student)):
        shortlist = model.recipe.search.shortlist
        for precision in ("float32", "int8"):
            rows.append((name, model, {"precision": precision, "beam": model.recipe.search.beam, "shortlist": 0}))
            if shortlist:
                rows.append((name, model, {**rows[-1][2], "shortlist": shortlist}))
    if as_teacher:
        beam = teacher.recipe.search.beam
        rows.append(("student", student, {"precision": "float32", "beam": beam, "shortlist": 0}))
    return rows


class StandIn:
    """A teacher of random weights that writes as many tokens for each source as the teacher did."""

    def __init__(self, folder: Path, outputs: dict[str, str]) -> None:
        self.recipe, self.outputs = as_recipe(folder / "recipe.toml"), outputs
        self.source, self.target = TOKENIZERS.load(folder)
        self.model = build_model(self.recipe.model, self.source.size, self.target.size).eval()

    def translate(
        self, sources: list[str], *, precision: str, beam: int, batch_sentences: int = 64, **_: Any
    ) -> list[Any]:
        """The teacher's outputs, after a search of their lengths."""
        lengths = [len(self.target.encode(self.outputs[text])) + 1 for text in sources]  # with EOS
        rows = [torch.tensor([*self.source.encode(text), EOS]) for text in sources]
        order = sorted(range(len(sources)), key=lambda number: len(rows[number]))
        for start in range(0, len(order), batch_sentences):
            chosen = order[start : start + batch_sentences]
            sizes = torch.tensor([len(rows[number]) for number in chosen])
            limits = torch.tensor([lengths[number] for number in chosen])
            ids = torch.nn.utils.rnn.pad_sequence([rows[number] for number in chosen], batch_first=True)
            options = SearchOptions().changed({"beam": beam, "precision": precision, "min_length": int(limits.max())})
            COMPILED.decode(DecodingCall(self.model, ids, sizes, limits, options))
        return [SimpleNamespace(text=self.outputs[text]) for text in sources]


def main() -> None:
    """Measure, print the table, and write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("teacher", type=Path)
    parser.add_argument("student", type=Path)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--reference", type=Path, required=True)
    parser.add_argument("--teacher-outputs", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batch", type=int, default=64, help="sentences per batch")
    parser.add_argument("--as-teacher", action="store_true", help="also the student with the teacher's beam")
    parser.add_argument("--name", default="distillation")
    parser.add_argument("--note", default="")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    KERNELS[Transformer].load()
    student = harken.load(chosen.student, device="cpu")
    sources, references = (path.read_text(encoding="utf-8").splitlines() for path in (chosen.source, chosen.reference))
    if chosen.teacher_outputs is None:
        teacher = harken.load(chosen.teacher, device="cpu")
    else:
        written = chosen.teacher_outputs.read_text(encoding="utf-8").splitlines()
        teacher = StandIn(chosen.teacher, dict(zip(sources, written, strict=True)))
    rows = configurations(student, teacher, chosen.as_teacher)
    outputs: list[list[str]] = [[] for _ in rows]
    best = [(float("inf"), float("inf"))] * len(rows)
    for _, model, options in rows:  # packs the weights, compiles what is not on disk
        model.translate(sources[: chosen.batch], attention=False, batch_sentences=chosen.batch, **options)
    for _ in range(chosen.rounds):
        for number, (_, model, options) in enumerate(rows):
            model.translate(sources[:2], attention=False, **options)  # one precision is packed at a time
            wall, cpu = time.perf_counter(), time.process_time()
            translations = model.translate(sources, attention=False, batch_sentences=chosen.batch, **options)
            spent = time.perf_counter() - wall, time.process_time() - cpu
            best[number] = min(best[number][0], spent[0]), min(best[number][1], spent[1])
            outputs[number] = [translation.text for translation in translations]
    first = {name: number for number, (name, _, options) in reversed(list(enumerate(rows)))}
    teacher_cpu = {
        rows[number][2]["precision"]: best[number][1] for number in range(len(rows)) if rows[number][0] == "teacher"
    }
    cells = []
    for number, (name, _, options) in enumerate(rows):
        wall, cpu = best[number]
        words = sum(len(text.split()) for text in outputs[number])
        same = sum(a == b for a, b in zip(outputs[number], outputs[first[name]], strict=True)) / len(sources)
        cells.append(
            {
                "model": name,
                **options,
                "bleu": round(corpus_bleu(outputs[number], references).value, 2),
                "chrf": round(corpus_chrf(outputs[number], references).value, 2),
                "equal": round(same, 3),
                "words/s": round(words / wall),
                "words/cpu-s": round(words / cpu),
                "cpu ratio to the teacher in float32": round(teacher_cpu["float32"] / cpu, 2),
                "cpu ratio at the same precision": round(teacher_cpu[options["precision"]] / cpu, 2),
            }
        )
    write(chosen, cells, teacher, student)


def write(chosen: Any, cells: list[dict[str, Any]], teacher: Any, student: Any) -> None:
    """Both files of the record."""
    models = {"teacher": teacher, "student": student}
    sizes = {name: sum(part.numel() for part in model.model.parameters()) for name, model in models.items()}
    facts = {"threads": 1, "batch": chosen.batch, "rounds": chosen.rounds, "test": chosen.source.name}
    record = {**machine(), **facts, "parameters": sizes, "note": chosen.note, "cells": cells}
    lines = [
        f"Test set {chosen.source.name}, {chosen.batch} sentences a batch, one thread, best of {chosen.rounds} rounds.",
        f"Parameters: teacher {sizes['teacher']:,}, student {sizes['student']:,}.",
        *([chosen.note] if chosen.note else []),
    ]
    page = [f"# {chosen.name}, {record['date']}", __doc__.strip(), rows_table(cells)]
    page += ["\n".join(f"- {line}" for line in lines) + "\n" + facts_of(record)]
    print(rows_table(cells))
    records.write(chosen.name, record, "\n\n".join(page))


if __name__ == "__main__":
    main()
