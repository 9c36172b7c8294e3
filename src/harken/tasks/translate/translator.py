"""A trained translator: the model folder as an object.

model = harken.load("runs/demo")
model.translate("the black cat sleeps", beam=5).text    # 'le chat noir dort'
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, overload

import numpy as np
import torch

from harken.data.heads import write_heads
from harken.data.pairs import Pair
from harken.data.rows import ParallelBatch, pad
from harken.data.tokenizers import Tokenizer, load_tokenizers
from harken.data.tokens import BOS, EOS, PAD
from harken.errors import UserError
from harken.metrics.links import merge_subwords
from harken.models.build import build_model
from harken.models.first_names import current_names
from harken.models.translation_model import TranslationModel
from harken.search import Hypothesis, beam_search, greedy_search
from harken.tasks.translate.recipe import TranslateRecipe
from harken.tasks.translate.sources import SourceBatch, Sources
from harken.tasks.translate.task import encode_pairs, max_lengths
from harken.tasks.translate.translation import Translation
from harken.training.checkpoints import load_weights
from harken.training.loop import MODEL
from harken.training.machine import choose_device, cores

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
        self.threads: int | None = None  # CPU threads to search with; measured when first needed

    @classmethod
    def load(cls, folder: Path, recipe: TranslateRecipe, device: str = "auto") -> Translator:
        """The model of a folder whose recipe was read."""
        source, target = load_tokenizers(folder)
        model = build_model(recipe.model, source.size, target.size)
        load_weights(model, folder / MODEL, current_names)
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
        with self._quickest_threads(len(order)):
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
            results = self._describe(sources, rows, attention, layers)
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
        with self._quickest_threads(len(wanted)):
            rows = list(enumerate(self._forced(read, wanted)))
            return self._describe(read, rows, True, layers, texts_out=targets)

    def evaluate(
        self,
        sources: Sequence[Pair] | Sequence[str],
        references: Sequence[str] | None = None,
        *,
        beam: int | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> Evaluation:
        """BLEU, chrF and, where gold alignments are there, the alignment error rate."""
        from harken.tasks.translate.evaluation import evaluate

        started = time.perf_counter()
        pairs = as_pairs(sources, references)
        lines = [write_heads(pair.source, pair.heads) for pair in pairs]
        found = self.translate(lines, beam=beam, attention=False, progress=progress)
        seconds = time.perf_counter() - started
        return evaluate(self, pairs, found, seconds)

    @contextmanager
    def _quickest_threads(self, sentences: int) -> Iterator[None]:
        """On a CPU, as many threads as are quickest for this model, which for small ones is a single one.

        That is tried out once, when there is enough to do for the trial to pay.
        """
        if self.device.type != "cpu":
            yield
            return
        before = torch.get_num_threads()
        if self.threads is None and sentences >= self.recipe.search.batch_sentences:
            self.threads = min(sorted({1, cores()}), key=self._trial_seconds)
        torch.set_num_threads(self.threads or 1)
        try:
            yield
        finally:
            torch.set_num_threads(before)

    @torch.no_grad()
    def _trial_seconds(self, threads: int) -> float:
        """How long a small batch takes with so many threads."""
        torch.set_num_threads(threads)
        tokens = torch.full((32, 16), EOS)
        best = float("inf")
        for _ in range(3):
            start = time.perf_counter()
            state = self.model.start(tokens, None)
            for _ in range(3):
                _, state, _ = self.model.step(tokens[:, 0], state)
            best = min(best, time.perf_counter() - start)
        return best

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

    @torch.no_grad()
    def _describe(
        self,
        sources: Sources,
        rows: Sequence[tuple[int, Hypothesis]],
        attention: bool,
        layers: bool,
        texts_out: Sequence[str] | None = None,
    ) -> list[Translation]:
        """Hypotheses as translations; their attention by reading them once under teacher forcing."""
        outputs = texts_out or [self.target.decode(hypothesis.tokens) for _, hypothesis in rows]
        results = [
            Translation(sources.texts[number], text, hypothesis.normalised)
            for (number, hypothesis), text in zip(rows, outputs, strict=True)
        ]
        if not (attention or layers) or not rows:
            return results
        source, lengths, distances = sources.batch([number for number, _ in rows], self.device)
        target, _ = pad([[BOS, *hypothesis.tokens] for _, hypothesis in rows], eos=False)
        weights = self.model.attention(source, lengths, target.to(self.device), distances)  # (B, L, N, T, S)
        if weights is None:
            return results
        aligned = self.model.alignment(weights).float().cpu().numpy()  # (B, T, S)
        first = 1 if self.model.alignment_shift else 0
        for row, ((number, hypothesis), result) in enumerate(zip(rows, results, strict=True)):
            pieces, words = hypothesis.tokens, sources.ids[number]
            rectangle = aligned[row, first : first + len(pieces), : len(words)]
            result.attention = merge_subwords(
                rectangle,
                self.target.word_of(pieces, result.text),
                self.source.word_of(words, result.source),
                len(result.target_words),
                len(result.source_words),
            )
            if layers:
                result.layers = weights[row, :, :, : len(pieces) + 1, : len(words) + 1].float().cpu().numpy()
                result.source_pieces, result.target_pieces = self.source.pieces(words), self.target.pieces(pieces)
        return results

    @torch.no_grad()
    def _forced(self, sources: Sources, wanted: list[list[int]]) -> list[Hypothesis]:
        """Given outputs with the score the model has for them."""
        source, lengths, distances = sources.batch(range(len(wanted)), self.device)
        target, _ = pad([[BOS, *row] for row in wanted], eos=False)
        output, _ = (tensor.to(self.device) for tensor in pad(wanted, eos=True))
        hidden = self.model(source, lengths, target.to(self.device), distances)
        chances = torch.log_softmax(self.model.logits(hidden).float(), -1)  # (B, T, V)
        chosen = chances.gather(-1, output[:, :, None])[:, :, 0]  # (B, T)
        scores = (chosen * (output != PAD)).sum(1).tolist()
        return [Hypothesis(row, score, score / (len(row) + 1), True) for row, score in zip(wanted, scores, strict=True)]


def as_pairs(sources: Sequence[Pair] | Sequence[str], references: Sequence[str] | None) -> list[Pair]:
    """Pairs from pairs, or from two lists of texts."""
    if references is None:
        if not all(isinstance(pair, Pair) for pair in sources):
            raise UserError("texts to evaluate need references: pass both, or a list of pairs")
        return [pair for pair in sources if isinstance(pair, Pair)]
    if len(sources) != len(references):
        raise UserError(
            f"{len(sources)} sources do not match {len(references)} references; give one reference a source"
        )
    return [Pair(str(source), reference) for source, reference in zip(sources, references, strict=True)]
