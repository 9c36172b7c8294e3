"""A trained translator: the model folder as an object.

model = harken.load("runs/demo")
model.translate("My brother works in a hospital.", beam=5).text    # 'Mon frère travaille dans un hôpital.'
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Self, Unpack, overload

import numpy as np

from harken.data.io.token_rows import ParallelBatch
from harken.data.text.dependency_heads import read_heads, write_heads
from harken.data.text.pairs import Pair
from harken.data.text.placeholders import Placeholders
from harken.data.tokenizers.base import Tokenizer
from harken.data.tokenizers.marks import add_marks, inner_tokenizer
from harken.errors import UserError
from harken.lazy_torch import torch
from harken.models.config import longest_of
from harken.search.compiled import prepare
from harken.search.descriptions import SearchKeys, TextKeys
from harken.search.stored import network_of
from harken.tasks.artifacts import TokenizerPairArtifact
from harken.tasks.keywords import show_keywords
from harken.tasks.predictor import Predictor, Progress, require_texts
from harken.tasks.translate.decoding.describing import describe, forced
from harken.tasks.translate.decoding.scoring import ScoredPair, score_pairs
from harken.tasks.translate.decoding.searching import Request, alternatives, translate_batch
from harken.tasks.translate.decoding.shortlist import ShortlistTable, shortlist_of
from harken.tasks.translate.decoding.streaming import stream
from harken.tasks.translate.evaluation import Evaluation, as_pairs, evaluate
from harken.tasks.translate.files.lines import Available, LongLines, Report, translate_lines
from harken.tasks.translate.files.threads import ThreadTuner
from harken.tasks.translate.known_form import KnownForm, known_forms
from harken.tasks.translate.recipe import TranslateRecipe
from harken.tasks.translate.seen_words import SEEN_WORDS, SeenWords
from harken.tasks.translate.sources import Sources, encode_pairs
from harken.tasks.translate.translation import Translation

if TYPE_CHECKING:
    from harken.inspection.pictures.beam import BeamPicture
    from harken.models.encoder_decoder import TranslationModel

TOKENIZERS = TokenizerPairArtifact()
LONGEST = 1000  # pieces of a text that are translated; a search takes time with the square of the length
PIECE = 100  # characters that a piece has at most in text that is meant to be translated


class RequestKeys(TextKeys, total=False):
    """The keyword arguments of `Translator.request`, without `beam`."""

    prefix: str | Sequence[str]
    prefix_bias: float | None
    require: Sequence[str] | Sequence[Sequence[str]]
    ensemble: Sequence[Translator]
    weights: Sequence[float] | None
    cancelled: Callable[[], bool] | None
    terms: Sequence[Sequence[tuple[str, str]]]


class TranslateKeys(RequestKeys, total=False):
    """The keyword arguments of `Translator.nbest`."""

    beam: int | None
    attention: bool
    layers: bool
    progress: Progress | None


class Translator(Predictor[TranslateRecipe, "TranslationModel"]):
    """Model, tokenizers and recipe of one folder; load it with `harken.load`."""

    def __init__(
        self,
        recipe: TranslateRecipe,
        model: TranslationModel,
        source: Tokenizer,
        target: Tokenizer,
        folder: Path | None = None,
    ) -> None:
        super().__init__(recipe, model, folder)
        self.source, self.target = source, target
        self.ensemble: tuple[Translator, ...] = ()  # further models, whose distributions are averaged with this one's
        self.weights: Sequence[float] | None = None  # of all of them
        self.threads = ThreadTuner(self.model)
        self.seen_words = SeenWords() if folder is None else SEEN_WORDS.load(folder)
        self.placeholders = Placeholders.of(recipe.data.markup, source, target)

    def build_network(self) -> None:
        """Build the network of a model that runs without it."""
        self.model = network_of(self.model)
        self.threads.model = self.model

    def with_ensemble(self, others: Sequence[Translator], weights: Sequence[float] | None = None) -> Self:
        """The same translator, whose searches average its distributions with those of others.

        Args:
            weights: of this one and the others.

        Raises:
            UserError: another vocabulary, or weights that do not match the models.
        """
        together = copy(self)
        together.ensemble, together.weights = tuple(others), weights
        together.request()  # refuses what does not fit
        return together

    def with_languages(self, source: str | None = None, target: str | None = None) -> Self:
        """The same translator from or into another language, where its model is multilingual.

        Raises:
            UserError: the model does not have the language, or translates between two alone.
        """
        data = self.recipe.data
        languages = {
            "source_language": source or data.source_language,
            "target_language": target or data.target_language,
        }
        other = copy(self)
        other.recipe = self.recipe.model_copy(update={"data": data.model_copy(update=languages)})
        if not self.recipe.tokenizer.languages:
            raise UserError(f"{self.folder} is no multilingual model (tokenizer.languages); leave the languages out")
        other.source, other.target = add_marks(other.recipe, *map(inner_tokenizer, (self.source, self.target)))
        return other

    @classmethod
    def open(cls, folder: Path, recipe: TranslateRecipe, device: str) -> Self:
        from harken.models.build import build_model  # imports torch

        source, target = add_marks(recipe, *TOKENIZERS.load(folder))
        return cls(recipe, build_model(recipe.model, source.size, target.size), source, target, folder)

    @cached_property
    def shortlist(self) -> ShortlistTable:
        """The target tokens that source tokens may need, for `search.shortlist`; learnt where the folder has none."""
        return shortlist_of(self)

    def request(
        self,
        count: int = 1,
        *,
        beam: int | None = None,
        prefix: str | Sequence[str] = "",
        prefix_bias: float | None = None,
        require: Sequence[str] | Sequence[Sequence[str]] = (),
        ensemble: Sequence[Translator] = (),
        weights: Sequence[float] | None = None,
        cancelled: Callable[[], bool] | None = None,
        terms: Sequence[Sequence[tuple[str, str]]] = (),
        **search: Unpack[TextKeys],
    ) -> Request:
        """The options of a search, checked.

        Args:
            count: translations of each text; the beam is made as wide.
            beam: live hypotheses; 1 is greedy search. Default: the recipe's.
            prefix: the beginning of every translation, or one for each text.
            prefix_bias: None forces the prefix; a number from 0 to 1 only prefers it.
            require: phrases that every translation must contain, or a list of them for each text.
            ensemble: further translators with the same vocabularies, whose distributions are averaged.
            weights: of all models of the ensemble, this one first.
            cancelled: asked at every step; True ends the search with what it has.
            terms: for each text, pairs of source and target terms, as a glossary has them.
            search: any key of the recipe's [search] table, such as `sample=True, seed=3` or
                `glossary={"letter": "message"}`.

        Raises:
            UserError: an option that does not exist or does not fit, with the reason.
        """
        given = {name: value for name, value in {"beam": beam, **search}.items() if value is not None}
        changes = {name: str(value) if isinstance(value, Path) else value for name, value in given.items()}
        config = self.recipe.search.changed(changes)
        if config.beam < count and not config.sample:
            config = config.changed({"beam": count})
        others, weights = ensemble or self.ensemble, weights or (None if ensemble else self.weights)
        return Request(self, config, prefix, prefix_bias, require, others, weights, cancelled, terms=terms)

    @show_keywords(request, TextKeys)
    def nbest(
        self,
        texts: Sequence[str],
        count: int,
        beam: int | None = None,
        *,
        attention: bool = True,
        layers: bool = False,
        progress: Progress | None = None,
        **options: Unpack[RequestKeys],
    ) -> list[list[Translation]]:
        """The `count` best translations of each text, best first.

        Args:
            attention: also say which source words each target word attends to.
            layers: also give the weights of every layer and head.
            progress: called with the number of sentences done since the last call.
            options: those of `request`.
        """
        texts = require_texts(texts)
        shortened = [self.shorten(text) for text in texts]
        if cut := sum(len(short) < len(text) for short, text in zip(shortened, texts, strict=True)):
            warnings.warn(f"{cut} texts are too long for the model; their beginning alone is translated", stacklevel=2)
        sources = self.read(shortened)
        request = self.request(count, beam=beam, **options)
        request.is_session = True

        def run(numbers: Sequence[int]) -> list[list[Translation]]:
            rows = translate_batch(request, sources, numbers, count, attention, layers)
            return [[translation for translation, _ in row] for row in rows]

        results = [[Translation(text, "", 0.0, np.zeros((0, len(text.split()))))] for text in sources.texts]
        ids = sources.ids
        filled = [number for number, row in enumerate(ids) if row]
        order, size = sorted(filled, key=lambda number: len(ids[number])), request.config.batch_sentences
        with self.threads.used(measure=len(order) >= size):
            translated = self.map((order[start : start + size] for start in range(0, len(order), size)), run, progress)
        for number, best in zip(filled, translated, strict=True):
            results[number] = best
        return results

    @overload
    def translate(self, texts: str, **options: Unpack[TranslateKeys]) -> Translation: ...
    @overload
    def translate(self, texts: list[str] | tuple[str, ...], **options: Unpack[TranslateKeys]) -> list[Translation]: ...

    @show_keywords(request, nbest, TextKeys)
    def translate(
        self, texts: str | list[str] | tuple[str, ...], **options: Unpack[TranslateKeys]
    ) -> Translation | list[Translation]:
        """The best translation of a text, or of each of several; options as `nbest` and `request` describe them.

        model.translate("a letter", beam=5, glossary={"letter": "message"}).text
        """
        if isinstance(texts, str):
            return self.nbest([texts], 1, **options)[0][0]
        return [best[0] for best in self.nbest(texts, 1, **options)]

    @show_keywords(request, TextKeys)
    def translate_lines(
        self,
        lines: Iterable[str],
        count: int = 1,
        beam: int | None = None,
        *,
        attention: bool = False,
        workers: int | None = None,
        window: int | None = None,
        skip: int = 0,
        long_lines: LongLines = "split",
        available: Available | None = None,
        report: Report | None = None,
        **options: Unpack[RequestKeys],
    ) -> Iterator[list[Translation]]:
        """The `count` best translations of each line of a stream, in order and in constant memory; none of a blank one.

        Args:
            workers: threads that translate at once, all with the same weights. Default: one per CPU core.
            window: lines that are sorted and batched together. Default: few at the start, more later.
            skip: lines at the start that are not translated.
            long_lines: what becomes of lines longer than the model reads: `split` translates them in parts, `copy`
                leaves them as they are.
            available: whether a line can be read within so many seconds, for streams that may pause; a window then
                ends where one has to be waited for.
            report: called with the number of a line, from 0, and a sentence, where it was too long.
            options: those of `request`.
        """
        request = self.request(count, beam=beam, **options)
        return translate_lines(
            self,
            lines,
            request,
            count,
            attention=attention,
            workers=workers,
            window=window,
            skip=skip,
            long_lines=long_lines,
            available=available,
            report=report,
        )

    def prepare(self) -> None:
        """Load or compile the fastest decoder now, not when it is worth it: every call is then decoded by the same."""
        prepare(self.model)

    @show_keywords(SearchKeys)
    def alternatives(
        self, text: str, prefix: str = "", count: int = 5, **options: Unpack[SearchKeys]
    ) -> list[Translation]:
        """Translations that begin with a prefix and go on with different tokens, the most probable token first."""
        sources, request = self.read([self.shorten(text)]), self.request(1, **options)
        if not sources.ids[0]:
            return []
        with torch.no_grad(), self.threads.used(measure=False):
            hypotheses = alternatives(request, sources, self.target.encode(prefix), count)
            return describe(self, sources, [(0, hypothesis) for hypothesis in hypotheses], True, False)

    @show_keywords(request, TextKeys)
    def stream(self, text: str, *, beam: int | None = None, **options: Unpack[RequestKeys]) -> Iterator[str]:
        """The translation of a text in parts, each as soon as no later step can change it; options as `request`."""
        with self.threads.used(measure=False):
            yield from stream(self, self.shorten(text), self.request(1, beam=beam, **options))

    @show_keywords(request, TextKeys)
    def beam(self, text: str, *, beam: int | None = None, **options: Unpack[RequestKeys]) -> BeamPicture:
        """The search that found the translation of a text, as a picture; options as `request`."""
        from harken.tasks.translate.decoding.beam_tree import draw_beam  # imports all pictures

        return draw_beam(self, self.shorten(text), self.request(1, beam=beam, **options))

    @property
    def limit(self) -> int:
        """The most pieces of a text that are translated at once: `LONGEST`, or the positions that were learned."""
        return min(LONGEST, (longest_of(self.recipe.model) or LONGEST + 1) - 1)  # one is for EOS

    def count_pieces(self, text: str) -> int:
        """The pieces of a text as the model reads it, EOS not counted."""
        if self.recipe.data.source_heads:
            return len(self.source.encode(read_heads(text, "the line")[0]))
        return len(known_forms([text], self.source, self.placeholders)[0].ids)

    def shorten(self, text: str) -> str:
        """A text without the words past the `limit`; one with heads stays whole, as a tree cannot be cut."""
        limit = self.limit
        if len(text) < limit or self.recipe.data.source_heads:
            return text
        short = text[: LONGEST * PIECE]
        while (pieces := len(self.source.encode_all([short])[0])) > limit:
            short = short[: min(len(short) - 1, len(short) * limit // pieces)]
        return text if len(short) == len(text) else short.rpartition(" ")[0] or short

    def read(self, texts: Sequence[str], numbers: Sequence[int] | None = None) -> Sources:
        """Sentences as the model takes them; errors name their `numbers` in a file, from 0.

        Raises:
            UserError: the model was trained on words with heads (`the|2 cat|3 sleeps|0`), and one has none.
        """
        headed, with_trees = self.recipe.data.source_heads, self.recipe.reads_trees
        return Sources.read(texts, self.source, headed, with_trees, numbers, self.placeholders, self.seen_words)

    def read_targets(self, sources: Sequence[str], targets: Sequence[str]) -> list[KnownForm]:
        """Given translations as the model reads them, with the symbols of their sources' markup."""
        return known_forms(self.placeholders.mask_columns((sources, targets), as_read=True)[1], self.target)

    def align(self, source: str, target: str, layers: bool = False) -> Translation:
        """A given translation under teacher forcing: its score, and what the model attends to."""
        return self.align_all([source], [target], layers)[0]

    def align_all(self, sources: Sequence[str], targets: Sequence[str], layers: bool = False) -> list[Translation]:
        """`align` for many pairs in one batch."""
        read, target_ids = self.read(sources), [form.ids for form in self.read_targets(sources, targets)]
        masked = self.placeholders.mask_columns((sources, targets), as_read=True)[1]
        if not all(read.ids) or not all(target_ids):
            raise UserError("both the sentence and its translation need at least one word")
        with self.threads.used(measure=len(target_ids) >= self.recipe.search.batch_sentences):
            rows = list(enumerate(forced(self, read, target_ids)))
            return describe(self, read, rows, True, layers, texts_out=masked)

    def score(self, sources: Sequence[str], targets: Sequence[str]) -> list[ScoredPair]:
        """The probabilities of given translations, token by token.

        Raises:
            UserError: not one target for each source, or an empty sentence.
        """
        return score_pairs(self, sources, targets)

    @show_keywords(request, TextKeys)
    def evaluate(
        self,
        sources: Sequence[Pair] | Sequence[str],
        references: Sequence[str] | None = None,
        *,
        beam: int | None = None,
        progress: Progress | None = None,
        **search: Unpack[RequestKeys],
    ) -> Evaluation:
        """BLEU, chrF and, where gold alignments are there, the alignment error rate; `search` as `request` takes it."""
        started = time.perf_counter()
        pairs = as_pairs(sources, references)
        lines = [write_heads(pair.source, pair.heads) for pair in pairs]
        translations = self.translate(lines, beam=beam, attention=False, progress=progress, **search)
        seconds = time.perf_counter() - started
        return evaluate(self, pairs, translations, seconds)

    def batch(self, pairs: Sequence[Pair | tuple[str, str]]) -> ParallelBatch:
        """Sentences and their translations as the network reads them in training.

        Raises:
            UserError: there is no pair.
        """
        if not pairs:
            raise UserError("there are no sentence pairs; give at least one")
        known = [pair if isinstance(pair, Pair) else Pair(*pair) for pair in pairs]
        if not self.recipe.data.source_heads:
            sides = ([pair.source for pair in known], [pair.target for pair in known])
            forms = known_forms(sides[0], self.source, self.placeholders), self.read_targets(*sides)
            known = [Pair(source.text, target.text) for source, target in zip(*forms, strict=True)]
        ids = encode_pairs(known, self.source, self.target, Placeholders())
        return ids.batch(np.arange(len(ids))).to(self.device)
