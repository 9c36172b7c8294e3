"""From a recipe for masked pre-training to a run, and from a folder to a `MaskedLanguageModel`.

model = harken.load("runs/masked")
model.fill("the black [MASK] sleeps")[0][:2]    # [('cat', 0.41), ('dog', 0.22)]
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from harken.data.io.token_rows import pad
from harken.data.rows import rows_of
from harken.data.text.texts import TextCorpus
from harken.data.tokenizers.base import Tokenizer, learn_tokenizer
from harken.data.tokenizers.marks import forced_tokens, inner_tokenizer
from harken.data.tokenizers.tokens import EOS
from harken.errors import UserError
from harken.inspection.measures.gates import ENDS, axis_pieces
from harken.inspection.pictures.picture import Picture
from harken.inspection.pictures.tables import HeatMaps, ShadeTable
from harken.metrics.interval import bootstrap
from harken.models.build import build_encoder
from harken.models.heads.masked import MASK, MaskedModel
from harken.models.reader import Reader, TokenInput
from harken.models.sizing import Size, measure
from harken.nn.transformer.block import EPSILON
from harken.tasks.artifacts import TokenizerArtifact
from harken.tasks.inspected import InspectedBatch, attention_panels, label_batch
from harken.tasks.job import Prepared, Summary
from harken.tasks.lines_job import LinesJob
from harken.tasks.masked.interface import INTERFACE, FillOptions
from harken.tasks.masked.recipe import MaskedRecipe
from harken.tasks.masked.task import MaskedRows, MaskedTask, as_rows, first_word, row_scores
from harken.tasks.predictor import BATCH_TOKENS, Predictor, Progress
from harken.tasks.pretrained_embeddings import PretrainedEmbeddings, width_key, words_of
from harken.tasks.results import Result
from harken.tasks.scores import Metric, Scores
from harken.tasks.sequence_task import length_batches
from harken.training.folder import MODEL
from harken.training.task import to_device
from harken.training.weights import load_weights

HOLE = "[MASK]"  # how a text says that a word is masked
TOKENIZER = TokenizerArtifact()


def build_masked_model(recipe: MaskedRecipe, size: int) -> MaskedModel:
    """A new network for `size` tokens, with weights drawn from torch's current random state."""
    encoder = build_encoder(recipe.model, may_start=True)
    epsilon = getattr(recipe.model, "norm_epsilon", EPSILON)
    return MaskedModel(Reader(TokenInput(size, encoder.embedding), encoder), epsilon)


@dataclass(frozen=True)
class FilledText(Result):
    """The likeliest tokens of every gap of a text."""

    gaps: list[list[tuple[str, float]]]

    def to_json(self, options: Any) -> dict[str, Any]:
        return {"gaps": [[{"token": token, "score": float(score)} for token, score in gap] for gap in self.gaps]}

    def __str__(self) -> str:
        return "\t".join(" ".join(f"{token} {score:.4f}" for token, score in gap) for gap in self.gaps)

    def rows(self) -> list[dict[str, Any]]:
        return [{"name": token, "value": float(score)} for gap in self.gaps for token, score in gap]


class MaskedLanguageModel(Predictor[MaskedRecipe, MaskedModel]):
    """Model, tokenizer and recipe of one folder; load it with `harken.load`."""

    tokenizer: Tokenizer
    parts = (("tokenizer", TOKENIZER),)

    @staticmethod
    def build(recipe: MaskedRecipe, tokenizer: Tokenizer) -> MaskedModel:
        """A network with new weights."""
        return build_masked_model(recipe, tokenizer.size)

    @torch.no_grad()
    def fill(self, text: str, count: int = 5) -> list[list[tuple[str, float]]]:
        """Fill every [MASK] of a text: the likeliest tokens with their probabilities, the best first.

        Raises:
            UserError: nothing is masked.
        """
        if HOLE not in text:
            raise UserError(f"nothing is masked in {text!r}; write {HOLE} in place of a word")
        ids, lengths = pad([[*self._encode(text), EOS]])
        ids, first = ids.to(self.device), first_word(self.tokenizer)
        logits = self.model(ids, lengths.to(self.device), ids == MASK)[:, first:]  # (M, V)
        best = torch.softmax(logits.float(), -1).topk(min(count, logits.shape[1]))
        names = [self.tokenizer.pieces([index + first for index in words]) for words in best.indices.tolist()]
        return [
            list(zip(words, values, strict=True)) for words, values in zip(names, best.values.tolist(), strict=True)
        ]

    def batch(self, lines: Sequence[str]) -> InspectedBatch:
        """Lines with one word to guess, for `harken.inspection`: their first gap, or where there is none the last word.

        Raises:
            UserError: a line without words; or there is none.
        """
        rows = [self._encode(line)[: self.recipe.data.max_tokens - 1] for line in lines]
        if not rows or not all(rows):
            raise UserError("there is a line without words, or none at all; give some words")
        positions = [row.index(MASK) if MASK in row else len(row) - 1 for row in rows]
        known, lengths = pad([[*row, EOS] for row in rows])
        chosen = torch.zeros(known.shape, dtype=torch.bool)
        chosen[torch.arange(len(rows)), torch.tensor(positions)] = True
        ids = known.masked_fill(chosen, MASK)
        inputs = [tensor.to(self.device) for tensor in (ids, lengths, chosen)]
        labels = known[chosen].to(self.device)
        with torch.no_grad():
            own = self.model(*inputs).argmax(-1)  # what it says itself of a gap
        return label_batch(inputs, torch.where(labels == MASK, own, labels))

    def reading(self, text: str) -> tuple[InspectedBatch, dict[str, list[str]], str]:
        """Read a text for `harken inspect --gates`: a batch, its pieces, and a title."""
        batch = self.batch([text])
        ids = batch.inputs[0][0].tolist()
        names = axis_pieces(self.tokenizer, ids[:-1])
        steps = [HOLE if index == MASK else name for index, name in zip(ids, names, strict=False)]
        return batch, {"reader.encoder": [*steps, ENDS[1]]}, text

    def _encode(self, text: str) -> list[int]:
        """Ids of a text, gaps as MASK; the space before a gap belongs to it."""
        row: list[int] = []
        *parts, last = text.split(HOLE)
        for number, part in enumerate([*map(str.rstrip, parts), last]):
            row += [MASK] * (number > 0)
            row += inner_tokenizer(self.tokenizer).encode(part.lower() if self.recipe.data.lowercase else part)
        return [*forced_tokens(self.tokenizer), *row] if row else []

    def evaluate(self, lines: Sequence[str], *, progress: Progress | None = None) -> Scores:
        """Perplexity of masked words and the share that is predicted; the same words are masked at every call."""
        rows = as_rows(lines, self.tokenizer, self.recipe.data.max_tokens)
        masked = MaskedRows(rows, self.tokenizer.size, self.recipe.masking.rate, first_word(self.tokenizer))
        scores = self.map(
            length_batches(rows.lengths, BATCH_TOKENS),
            lambda indices: row_scores(self.model, to_device(masked.batch(indices), self.device)),
            progress,
        )
        losses, right, words = np.array(scores).T
        loss = bootstrap(losses, words)
        perplexity = loss.map(math.exp)
        note = f"of {int(words.sum()):,} masked words"
        return Scores(
            len(rows),
            "rows",
            [
                Metric.of("perplexity", perplexity, f"{note}; lower is better", digits=2, lower_is_better=True),
                Metric.of("accuracy", bootstrap(right, words), "share predicted", digits=4),
            ],
        )

    def picture(self, text: str, count: int = 12) -> Picture:
        """The likeliest words of every gap, as shades, and with a Transformer its attention."""
        candidates = self.fill(text, count)
        panels = []
        for number, gap in enumerate(candidates, start=1):
            title = text if len(candidates) == 1 else f"{text} ({number})"
            words, shades = [word for word, _ in gap], [[value] for _, value in gap]
            panels.append(ShadeTable(["probability"], words, shades, title, down="word"))
        batch, steps, _ = self.reading(text)
        return HeatMaps([*panels, *attention_panels(self.model.reader, batch.inputs[0], steps["reader.encoder"])])


LENGTH = 20  # tokens of the row whose cost is measured


class MaskedJob(LinesJob):
    """See `harken.tasks.lines_job`."""

    predictor = MaskedLanguageModel
    artifacts = (TOKENIZER,)
    interface = INTERFACE

    def prepare_data(self, recipe: MaskedRecipe, text: TextCorpus, folder: Path, resuming: bool) -> Prepared:
        start, config, seed = recipe.model.start, recipe.tokenizer, recipe.train.seed

        def learn() -> Tokenizer:
            if start:
                return TOKENIZER.load(Path(start))
            return rows_of(text.train).cached_tokenizer(
                [config.model_dump(), seed], lambda texts: learn_tokenizer(config, texts, seed)
            )

        tokenizer = TOKENIZER.learn_or_load(folder, resuming, learn)
        model, pretrained = MaskedLanguageModel.build(recipe, tokenizer), PretrainedEmbeddings(recipe, folder, resuming)
        if start is not None:
            load_weights(model, Path(start) / MODEL)
            pretrained.add_note(f"all weights and {tokenizer.size:,} pieces are those of {start}")
        first = first_word(tokenizer)
        pretrained.fill(model.table, words_of(tokenizer), text.train, width_key(recipe.model))
        train, valid = (as_rows(lines, tokenizer, recipe.data.max_tokens) for lines in (text.train, text.valid))
        task = MaskedTask(recipe.train, model, tokenizer.size, recipe.masking.rate, train, valid, first)
        vocabulary = f"{tokenizer.size:,} {recipe.tokenizer.kind} pieces"
        summary = Summary(
            text.name,
            recipe.model.title,
            len(train.flat),
            len(valid.flat),
            unit="tokens",
            data_summary=f"{len(train):,} rows",
            input_summary=vocabulary,
            languages="masked",
            skipped=text.skipped,
            skipped_unit="lines",
            facts={"vocabulary": vocabulary, **pretrained.facts},
            notes=pretrained.notes,
        )
        masked = recipe.masking.rate * max(float((train.flat >= first).mean()), 1e-6)  # share of all tokens
        return summary.prepared(task, size_of(model, recipe).flops / masked, text)

    def predict(
        self, model: MaskedLanguageModel, examples: Sequence[str], options: FillOptions, progress: Progress
    ) -> list[FilledText]:
        return [FilledText(model.fill(text, options.count)) for text in examples]

    def attention_figure(self, model: MaskedLanguageModel, example: str) -> Picture:
        return model.picture(example)

    def validation(self, best: dict[str, Any]) -> str:
        return f"perplexity of masked words {best['perplexity']:.2f}, {best['accuracy']:.1%} of them predicted"


JOB = MaskedJob()


def size_of(model: MaskedModel, recipe: MaskedRecipe) -> Size:
    """The size of a network whose output layer reads the masked share of the tokens."""
    length = min(LENGTH, recipe.model.longest or LENGTH)
    return measure(model, length, run=lambda count: model.dry_run(count, recipe.masking.rate), lengths=(length,))
