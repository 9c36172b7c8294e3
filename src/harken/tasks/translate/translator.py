"""A trained translator: the model folder as an object.

model = harken.load("runs/demo")
model.translate("the black cat sleeps", beam=5).text    # 'le chat noir dort'
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, overload

import numpy as np
import torch

from harken.data.io.token_rows import ParallelBatch
from harken.data.text.dependency_heads import write_heads
from harken.data.text.pairs import Pair
from harken.data.tokenizers.base import Tokenizer, load_tokenizers
from harken.errors import UserError
from harken.models.build import build_model
from harken.models.encoder_decoder import TranslationModel
from harken.search import Hypothesis, beam_search, greedy_search
from harken.tasks.translate.describing import describe, forced
from harken.tasks.translate.quickest import QuickestThreads
from harken.tasks.translate.recipe import TranslateRecipe
from harken.tasks.translate.sources import SourceBatch, Sources
from harken.tasks.translate.task import encode_pairs, max_lengths
from harken.tasks.translate.translation import Translation
from harken.training.checkpoints import load_weights
from harken.training.loop import MODEL
from harken.training.machine import choose_device

if TYPE_CHECKING:
    from harken.tasks.translate.evaluation import Evaluation


class Translator:
    """Model, tokenizers and recipe of one folder; load it with `harken.load`."""

    def __init__(
        self,
        recipe: TranslateRecipe,
        model: TranslationModel,
        source: Tokenizer,
        target: Tokenizer,
        folder: Path | None = None,
    ) -> None:
        self.recipe, self.folder = recipe, folder
        self.model = model.eval()
        self.source, self.target = source, target
        self.threads = QuickestThreads(self.model)

    @classmethod
    def load(cls, folder: Path, recipe: TranslateRecipe, device: str = "auto") -> Translator:
        """The model of a folder whose recipe was read."""
        source, target = load_tokenizers(folder)
        model = build_model(recipe.model, source.size, target.size)
        load_weights(model, folder / MODEL)
        return cls(recipe, model.to(choose_device(device)), source, target, folder)

    @overload
    def translate(
        self,
        texts: str,
        *,
        beam: int | None = None,
        length_penalty: float | None = None,
        attention: bool = True,
        layers: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> Translation: ...
    @overload
    def translate(
        self,
        texts: list[str] | tuple[str, ...],
        *,
        beam: int | None = None,
        length_penalty: float | None = None,
        attention: bool = True,
        layers: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> list[Translation]: ...

    def translate(
        self,
        texts: str | list[str] | tuple[str, ...],
        *,
        beam: int | None = None,
        length_penalty: float | None = None,
        attention: bool = True,
        layers: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> Translation | list[Translation]:
        """The best translation of a text, or of each of several.

        Args:
            beam: live hypotheses; 1 is greedy search. Default: what the recipe says.
            attention: also say which source words each target word looked at.
            layers: also give the weights of every layer and head.
            progress: called with the number of sentences done since the last call.
        """
        if isinstance(texts, str):
            return self.nbest([texts], 1, beam, length_penalty, attention, layers)[0][0]
        found = self.nbest(texts, 1, beam, length_penalty, attention, layers, progress)
        return [best[0] for best in found]

    def nbest(
        self,
        texts: Sequence[str],
        count: int,
        beam: int | None = None,
        length_penalty: float | None = None,
        attention: bool = True,
        layers: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> list[list[Translation]]:
        """The `count` best translations of each text, best first."""
        beam = max(beam or self.recipe.search.beam, count)
        penalty = self.recipe.search.length_penalty if length_penalty is None else length_penalty
        sources = self.read(texts)
        filled = [number for number, row in enumerate(sources.ids) if row]
        found = [[Translation(text, "", 0.0, np.zeros((0, len(text.split()))))] for text in sources.texts]
        order = sorted(filled, key=lambda number: len(sources.ids[number]))
        with self.threads.used(trial=len(order) >= self.recipe.search.batch_sentences):
            self._fill(found, sources, order, count, beam, penalty, attention, layers, progress)
        return found

    def read(self, texts: Sequence[str]) -> Sources:
        """Sentences as the model takes them.

        Raises:
            UserError: the model was trained on words with heads (`the|2 cat|3 sleeps|0`), and one has none.
        """
        return Sources.read(texts, self.source, self.recipe.data.source_heads, self.recipe.reads_trees)

    def _fill(
        self,
        found: list[list[Translation]],
        sources: Sources,
        order: list[int],
        count: int,
        beam: int,
        penalty: float,
        attention: bool,
        layers: bool,
        progress: Callable[[int], None] | None,
    ) -> None:
        """Search in batches of about equal length and put the results where they belong."""
        size = self.recipe.search.batch_sentences
        for start in range(0, len(order), size):
            chosen = order[start : start + size]
            hypotheses = self._search(sources.batch(chosen, self.device), beam, count, penalty)
            rows = [
                (number, hypothesis) for number, best in zip(chosen, hypotheses, strict=True) for hypothesis in best
            ]
            results = describe(self, sources, rows, attention, layers)
            for number in chosen:
                found[number] = []
            for (number, _), result in zip(rows, results, strict=True):
                found[number].append(result)
            if progress:
                progress(len(chosen))

    def align(self, source: str, target: str, layers: bool = False) -> Translation:
        """A given translation under teacher forcing: its score, and where the model looked."""
        return self.align_all([source], [target], layers)[0]

    def align_all(self, sources: Sequence[str], targets: Sequence[str], layers: bool = False) -> list[Translation]:
        """`align` for many pairs in one batch."""
        read, wanted = self.read(sources), self.target.encode_all(list(targets))
        if not all(read.ids) or not all(wanted):
            raise UserError("both the sentence and its translation need at least one word")
        with self.threads.used(trial=len(wanted) >= self.recipe.search.batch_sentences):
            rows = list(enumerate(forced(self, read, wanted)))
            return describe(self, read, rows, True, layers, texts_out=targets)

    def evaluate(
        self,
        sources: Sequence[Pair] | Sequence[str],
        references: Sequence[str] | None = None,
        *,
        beam: int | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> Evaluation:
        """BLEU, chrF and, where gold alignments are there, the alignment error rate."""
        from harken.tasks.translate.evaluation import as_pairs, evaluate

        started = time.perf_counter()
        pairs = as_pairs(sources, references)
        lines = [write_heads(pair.source, pair.heads) for pair in pairs]
        found = self.translate(lines, beam=beam, attention=False, progress=progress)
        seconds = time.perf_counter() - started
        return evaluate(self, pairs, found, seconds)

    def batch(self, pairs: Sequence[Pair | tuple[str, str]]) -> ParallelBatch:
        """Sentences and their translations as the network reads them in training.

        Raises:
            UserError: there is no pair.
        """
        if not pairs:
            raise UserError("there are no sentence pairs; give at least one")
        known = [pair if isinstance(pair, Pair) else Pair(*pair) for pair in pairs]
        ids = encode_pairs(known, self.source, self.target)
        return ids.batch(np.arange(len(ids))).to(self.device)

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return next(self.model.parameters()).device

    @torch.no_grad()
    def _search(self, batch: SourceBatch, beam: int, count: int, penalty: float) -> list[list[Hypothesis]]:
        state, rows = self.model.start(*batch), len(batch.ids)
        if hasattr(state, "weights"):
            state.weights = False  # attention is read afterwards, in one pass
        limits = max_lengths(self.recipe, batch.lengths)
        if beam == 1:
            greedy = greedy_search(self.model, state, rows, max_lengths=limits, length_penalty=penalty)
            return [[hypothesis] for hypothesis in greedy]
        return beam_search(
            self.model,
            state,
            rows,
            beam=beam,
            nbest=count,
            length_penalty=penalty,
            max_lengths=limits,
            stopping=self.recipe.search.stopping,
        )
