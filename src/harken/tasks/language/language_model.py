r"""A trained language model: the model folder as an object.

model = harken.load("runs/shakespeare")
model.generate("ROMEO:", length=200, temperature=0.8)    # the prompt's continuation
model.perplexity("the black cat sleeps\n")
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict, Unpack

import numpy as np
import torch
from torch import Tensor

from harken.data.io.token_rows import pad
from harken.data.tokenizers.base import Tokenizer
from harken.data.tokenizers.tokens import BOS, EOS, PAD, UNK
from harken.errors import UserError
from harken.inspection.pictures.sequences import Surprisal
from harken.models.base import require_numbers
from harken.models.build import build_language
from harken.models.language.base import LanguageNetwork
from harken.models.transformer.language import TransformerLanguage
from harken.search.sampling import check, sample
from harken.tasks.artifacts import TokenizerArtifact
from harken.tasks.inspected import InspectedBatch
from harken.tasks.keywords import show_keywords
from harken.tasks.language.interface import SamplingOptions
from harken.tasks.language.recipe import LanguageRecipe
from harken.tasks.language.scoring import Windowed, log_probabilities
from harken.tasks.language.task import text_ids, text_of
from harken.tasks.predictor import Predictor, Progress

TOKENIZER = TokenizerArtifact()
PART = "\ufffd"  # how the first bytes of a character are decoded, before the others are drawn
LINE_END = "⏎"  # how the end of a line is shown among tokens


class SamplingKeys(TypedDict, total=False):
    """The types of `SamplingOptions`, for type checkers."""

    length: int
    temperature: float
    top_k: int | None
    top_p: float | None
    min_p: float | None
    seed: int
    line: bool


@dataclass(frozen=True)
class ScoredText:
    """A text, token by token, and how probable each was after all before it."""

    tokens: list[str]
    log_probabilities: np.ndarray  # (T,) natural logarithms

    @property
    def perplexity(self) -> float:
        """exp of the mean surprise; 1 where there is no token."""
        return math.exp(-float(self.log_probabilities.mean())) if len(self.tokens) else 1.0


class LanguageModel(Predictor[LanguageRecipe, LanguageNetwork]):
    """Network, tokenizer and recipe of one folder; load it with `harken.load`."""

    tokenizer: Tokenizer
    parts = (("tokenizer", TOKENIZER),)

    @staticmethod
    def build(recipe: LanguageRecipe, tokenizer: Tokenizer) -> LanguageNetwork:
        """A network with new weights."""
        return build_language(recipe.model, tokenizer.size)

    @show_keywords(SamplingOptions)
    def generate(self, prompt: str = "", **options: Unpack[SamplingKeys]) -> str:
        """The prompt's continuation, without the prompt.

        Raises:
            UserError: options that leave nothing to draw from.
        """
        return "".join(self.stream(prompt, **options))

    @show_keywords(SamplingOptions)
    def stream(self, prompt: str = "", **options: Unpack[SamplingKeys]) -> Iterator[str]:
        """The continuation bit by bit, as it is drawn.

        Raises:
            UserError: as `generate`.
        """
        sampling = SamplingOptions(**options)
        known = self.ids(prompt).tolist()
        current = known[len(known) - known[::-1].index(EOS) :]  # of the last line: what comes may change its spacing
        shown = self.tokenizer.decode(current)
        for (token,) in self._drawn(prompt, 1, sampling):
            if token == EOS and sampling.line:
                return
            if token == EOS:
                current, shown = [], ""
                yield "\n"
                continue
            current.append(token)
            text = self.tokenizer.decode(current)
            if not text.endswith(PART):
                yield text[len(shown) :]
                shown = text

    @show_keywords(SamplingOptions)
    def samples(self, prompt: str = "", count: int = 1, **options: Unpack[SamplingKeys]) -> list[str]:
        """Several continuations of one prompt.

        Raises:
            UserError: as `generate`.
        """
        sampling = SamplingOptions(**options)
        rows: list[list[int]] = [[] for _ in range(count)]
        for tokens in self._drawn(prompt, count, sampling):
            for row, token in zip(rows, tokens, strict=True):
                if not (sampling.line and row and row[-1] == EOS):
                    row.append(token)
        if sampling.line:
            rows = [row[:-1] if row and row[-1] == EOS else row for row in rows]
        lines, known = self.recipe.data.lines, self.ids(prompt)[1:].tolist()
        before = len(text_of(self.tokenizer, known, lines))
        return [text_of(self.tokenizer, known + row, lines)[before:] for row in rows]

    def _drawn(self, prompt: str, count: int, sampling: SamplingOptions) -> Iterator[list[int]]:
        """Tokens of all rows, step by step, until all have ended their line where that is asked for."""
        options = {name: getattr(sampling, name) for name in ("temperature", "top_k", "top_p", "min_p")}
        check(**options)
        ids = torch.from_numpy(self.ids(prompt)).to(self.device).repeat(count, 1)
        model, state = self.start(ids[:, :-1])
        drawn = sample(model, state, ids[:, -1], seed=sampling.seed, forbidden=self._forbidden(), **options)
        ended = [False] * count
        for _, tokens in zip(range(sampling.length), drawn, strict=False):
            row = tokens.tolist()
            ended = [was or token == EOS for was, token in zip(ended, row, strict=True)]
            yield row
            if sampling.line and all(ended):
                return

    def _forbidden(self) -> list[int]:
        """Padding and unknown words are no text; ends of lines are none where lines do not count."""
        return [PAD, UNK, BOS] if self.recipe.data.lines else [PAD, UNK, BOS, EOS]

    @torch.no_grad()
    def start(self, tokens: Tensor) -> tuple[Any, Any]:
        """A model of the `step` contract and its state after tokens (B, t), t from 0 on."""
        if isinstance(self.model, TransformerLanguage):
            windowed = Windowed(self.model, self.recipe.data.chunk)
            return windowed, windowed.start(tokens)
        return self.model, self.model.start(len(tokens), tokens)

    def ids(self, text: str) -> np.ndarray:
        """(N,) the ids of a text, after the EOS that stands before it."""
        return text_ids(self.tokenizer, text, self.recipe.data.lines)

    def score(self, text: str) -> ScoredText:
        """Every token of a text with its log-probability."""
        ids = self.ids(text)
        return ScoredText(self.pieces(ids[1:].tolist()), self.log_probabilities(ids))

    def surprisal(self, text: str) -> Surprisal:
        """The surprisal of every token of a text, as a picture.

        Raises:
            UserError: there is no token in the text.
        """
        if not text.strip():
            raise UserError("there is no text to score; give some words in quotes")
        scored = self.score(text)
        return Surprisal(scored.tokens, (-scored.log_probabilities).tolist())

    def perplexity(self, text: str) -> float:
        """exp of the mean surprise at a token; the end of a line counts where the text ends one.

        Raises:
            UserError: there is no token in the text.
        """
        ids = self.ids(text)
        if len(ids) < 2:
            raise UserError("the text is empty, so it has no perplexity; give some words")
        return math.exp(-float(self.log_probabilities(ids).mean()))

    def log_probabilities(self, ids: np.ndarray, progress: Progress | None = None) -> np.ndarray:
        """(N - 1,) of every id after the first; see `harken.tasks.language.scoring`."""
        return log_probabilities(self.model, ids, self.recipe.data.chunk, progress=progress)

    @torch.no_grad()
    def states(self, text: str) -> np.ndarray:
        """The states of every layer for a text, the lowest first: (L, T, W), one for each token of the text.

        Raises:
            UserError: there is no token in the text, or more than a Transformer has places for.
        """
        ids = self.ids(text)
        if len(ids) < 2:
            raise UserError("the text is empty, so no layer makes anything of it; give some words")
        tokens = torch.from_numpy(ids).to(self.device)[None]
        layers = self.model.layers_of(tokens)
        require_numbers(layers)
        return layers[:, 0, 1:].float().cpu().numpy()

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Tokens to be shown, the end of a line as ⏎."""
        names = self.tokenizer.pieces(list(ids))
        return [LINE_END if index == EOS else name for index, name in zip(ids, names, strict=True)]

    def batch(self, texts: Sequence[str]) -> InspectedBatch:
        """Texts as the network reads them, for `harken.inspection`.

        Raises:
            UserError: there is no text.
        """
        most = None if self.recipe.model.longest is None else self.recipe.model.longest + 1  # the last is only written
        rows = [row[:most] for text in texts if len(row := self.ids(text).tolist()) > 1]
        if not rows:
            raise UserError("there is no text to read; give at least one line with words")
        padded, lengths = pad(rows)
        padded = padded.to(self.device)
        return InspectedBatch(
            (padded[:, :-1],),
            padded[:, 1:],
            lengths.to(self.device) - 2,
            lambda network, tokens: network.logits(network(tokens)[0]),
        )

    def reading(self, text: str) -> tuple[InspectedBatch, list[str], str]:
        """A text as a batch of one, the token that is read at each step, and what to write above a picture of it."""
        batch = self.batch([text])
        return batch, self.pieces(batch.inputs[0][0].tolist()), text
