"""A translator that needs no training, put where the verbs look for the real one."""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from harken.cli.app import app
from harken.errors import UserError
from harken.inspection import AlignmentMap, AttentionGrid
from harken.metrics import Score, corpus_bleu, corpus_chrf, exact_match
from harken.metrics.interval import Interval
from harken.recipe import load_recipe


@dataclass
class FakeTranslation:
    """Upper case, word by word, each looking at its own source word."""

    source: str
    text: str
    score: float
    attention: np.ndarray | None
    is_spaced = True

    @property
    def is_aligned(self) -> bool:
        return self.attention is not None

    @property
    def unknown(self) -> list[int]:
        return [at for at, word in enumerate(self.source.split()) if "zebra" in word]

    @property
    def unknown_words(self) -> list[str]:
        return [self.source.split()[at] for at in self.unknown]

    def alignment(self) -> list[tuple[int, int]]:
        return [(i, i) for i in range(len(self.source.split()))]

    def map(self) -> AlignmentMap:
        return AlignmentMap(self.source.split(), self.text.split(), self.attention)

    def grid(self) -> AttentionGrid:
        return AttentionGrid(np.stack([np.stack([self.attention] * 2)] * 3), self.source.split(), self.text.split())


@dataclass
class FakeEvaluation:
    bleu: Score
    chrf: Score
    exact: Interval
    alignment_error: float | None
    hypotheses: list[str]
    seconds: float = 0.5
    references: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return {
            "sentences": len(self.hypotheses),
            "bleu": self.bleu.value,
            "bleu_signature": self.bleu.signature,
            "alignment_error": self.alignment_error,
        }


@dataclass
class FakeTranslator:
    folder: str
    attends: bool = True
    calls: list[tuple[list[str], dict[str, Any]]] = field(default_factory=list)
    recipe: Any = field(default_factory=lambda: load_recipe("tatoeba-transformer"))

    def prepare(self) -> None:
        self.calls.append(([], {"prepare": True}))

    def translate(self, texts: str | Sequence[str], **options: Any) -> Any:
        if isinstance(texts, str):
            return self._one(texts, options.get("attention", True))
        return [self._one(text, options.get("attention", True)) for text in texts]

    def translate_lines(
        self, lines: Iterable[str], count: int, beam: int | None, *, attention: bool, window: int | None, **options: Any
    ) -> Iterator[list[FakeTranslation]]:
        rest = iter(lines)
        while chunk := list(islice(rest, window or 256)):
            found = iter(self.nbest([line for line in chunk if line.strip()], count, beam, attention=attention))
            yield from (next(found) if line.strip() else [] for line in chunk)

    def nbest(
        self, texts: Sequence[str], count: int, beam: int | None = None, *, attention: bool = True
    ) -> list[list[FakeTranslation]]:
        self.calls.append((list(texts), {"count": count, "beam": beam, "attention": attention}))
        return [[self._one(text, attention)] * count for text in texts]

    def align(self, source: str, target: str, *, layers: bool = False) -> FakeTranslation:
        weights = np.full((len(target.split()), len(source.split())), 1 / len(source.split()))
        return FakeTranslation(source, target, -2.0, weights)

    def evaluate(self, pairs: Any, *, progress: Any = None, **options: Any) -> FakeEvaluation:
        progress(len(pairs))
        hypotheses = [pair.source.upper() for pair in pairs]
        wanted = [pair.target for pair in pairs]
        gold = pairs[0].alignment is not None
        scores = corpus_bleu(hypotheses, wanted), corpus_chrf(hypotheses, wanted), exact_match(hypotheses, wanted)
        return FakeEvaluation(*scores, 0.125 if gold else None, hypotheses, references=tuple(wanted))

    def _one(self, text: str, attention: bool) -> FakeTranslation:
        weights = np.eye(len(text.split())) if attention and self.attends else None
        return FakeTranslation(text, text.upper(), -0.25, weights)


class FakeApi(ModuleType):
    """`harken.api` with models that are only names of folders."""

    def __init__(self) -> None:
        super().__init__("harken.api")
        self.attends = True
        self.interrupt = False
        self.trained: list[tuple[Any, ...]] = []
        self.loaded: list[FakeTranslator] = []

    def load(self, folder: str | Path) -> FakeTranslator:
        if not Path(folder).is_dir():
            raise UserError(f"{folder} is no model folder; train one first")
        self.loaded.append(FakeTranslator(str(folder), self.attends))
        return self.loaded[-1]

    def load_quickly(self, folder: str | Path, report: Callable[[str], None]) -> FakeTranslator:
        return self.load(folder)

    def train(
        self,
        recipe: str,
        out: Path,
        *,
        overrides: Sequence[str] = (),
        resume: bool = False,
        restart: bool = False,
        accept_changed_data: bool = False,
        progress: bool = True,
        started: float | None = None,
    ) -> FakeTranslator:
        self.trained.append((recipe, str(out), list(overrides), resume, progress))
        out.mkdir(parents=True, exist_ok=True)
        (out / "recipe.toml").write_text("")
        if self.interrupt:
            raise KeyboardInterrupt
        (out / "card.md").write_text("done")
        return self.load(out)


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    fake = FakeApi()
    monkeypatch.setitem(sys.modules, "harken.api", fake)
    return fake


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    return folder


@pytest.fixture
def run() -> Callable[..., Any]:
    """Run `harken` with arguments and perhaps text or bytes on stdin."""

    def invoke(*arguments: Any, stdin: str | bytes | None = None) -> Any:
        return CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin)

    return invoke
