"""A trained hand: the model folder as an object; and the task that trains it: the likelihood of every next point.

model = harken.load("runs/pen")
model.write("hello world", bias=1.0, seed=7).save("hello.svg")
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self, overload

import numpy as np
import torch
from torch import Tensor

from harken.data.io.token_rows import pad
from harken.data.strokes.corpus import StrokeCorpus
from harken.data.strokes.drawing import Drawing
from harken.data.strokes.files import read_npz, read_strokes
from harken.data.strokes.rows import StrokeBatch, StrokeRows
from harken.data.tokenizers.base import Tokenizer
from harken.data.tokenizers.tokens import EOS, UNK
from harken.errors import UserError
from harken.models.base import require_numbers
from harken.models.heads.handwriting import MARKS, HandwritingModel
from harken.nn.masks import length_mask
from harken.nn.mixture import PenMixture
from harken.tasks.artifacts import TokenizerArtifact
from harken.tasks.handwriting.recipe import HandwritingRecipe
from harken.tasks.handwriting.strokes import Strokes
from harken.tasks.predictor import Predictor, Progress
from harken.tasks.sequence_task import SequenceTask, Sums
from harken.training.task import Indices


class HandwritingBatch(NamedTuple):
    """Drawings, and their points without padding, counted before they are on a GPU."""

    drawn: StrokeBatch
    points: int


class HandwritingTask(SequenceTask[HandwritingModel, HandwritingBatch]):
    """See `harken.tasks.sequence_task`; a step is a point."""

    unit = "points"
    unread = SequenceTask.unread | {"label_smoothing"}
    monitor = "nats"

    def __init__(
        self, recipe: HandwritingRecipe, corpus: StrokeCorpus, model: HandwritingModel, tokenizer: Tokenizer | None
    ) -> None:
        self.train = StrokeRows(corpus.splits["train"], tokenizer)
        self.valid = StrokeRows(corpus.splits["valid"], tokenizer)
        super().__init__(model, recipe.train, self.train.lengths, self.valid.lengths)
        model.fit(torch.from_numpy(self.train.flat[:, :2]))
        self.deviation = float(model.deviation)

    def collate(self, indices: Indices, valid: bool = False) -> HandwritingBatch:
        drawn = (self.valid if valid else self.train).batch(indices, self.deviation)
        return HandwritingBatch(drawn, int(drawn.lengths.sum()))

    def loss(self, model: HandwritingModel, batch: HandwritingBatch) -> tuple[Tensor, int]:
        """Nats, summed over all points."""
        return nats_of_rows(model, batch.drawn).sum(), batch.points

    def evaluate(self, model: HandwritingModel, batch: HandwritingBatch) -> Sums:
        return {"nats": float(nats_of_rows(model, batch.drawn).sum()), "points": batch.points}

    def metrics(self, sums: Sums) -> dict[str, float]:
        """Nats a point."""
        return {"nats": sums["nats"] / sums["points"]}


def nats_of_rows(model: HandwritingModel, batch: StrokeBatch) -> Tensor:
    """-log p of each drawing (B,), its movements in units of the training data's deviation."""
    return nats_of_points(model, batch).sum(1)


def nats_of_points(model: HandwritingModel, batch: StrokeBatch) -> Tensor:
    """-log p of each point (B, T) after all before it; 0 after the end of a drawing."""
    written = model(batch.before, batch.characters, batch.character_lengths)
    with torch.autocast(batch.movement.device.type, enabled=False):  # densities need all digits
        nats = -model.density(written).log_density(batch.movement, batch.marks)  # (B, T)
    real = length_mask(batch.lengths, nats.shape[1])
    return torch.where(real, nats, 0.0)


@dataclass(frozen=True)
class DrawnBatch:
    """Drawings as `harken.inspection.measures.running` runs a network on them."""

    drawn: StrokeBatch

    def losses(self, network: HandwritingModel) -> tuple[Tensor, Tensor]:
        """Nats of every point (B, T), and the place of each drawing's last (B,)."""
        return nats_of_points(network, self.drawn), self.drawn.lengths - 1


ALPHABET = TokenizerArtifact()
BATCH = 128  # drawings that are drawn or scored together
LEFT_BEHIND = 0.02  # a window that sees less of its text than this has passed the end; while writing it is above 0.09


Text = str | None  # None for a model that reads no text
Texts = list[str] | list[None] | list[str | None]


class HandwritingSynthesizer(Predictor[HandwritingRecipe, HandwritingModel]):
    """Model, alphabet and recipe of one folder; load it with `harken.load`."""

    tokenizer: Tokenizer | None
    parts = (("tokenizer", ALPHABET),)

    @classmethod
    def open(cls, folder: Path, recipe: HandwritingRecipe, device: str) -> Self:
        tokenizer = ALPHABET.load(folder) if recipe.model.window else None
        return cls(recipe, build(recipe, tokenizer), tokenizer, folder)

    @overload
    def write(
        self, text: Text = None, bias: float | None = None, seed: int = 1, progress: Progress | None = None
    ) -> Strokes: ...
    @overload
    def write(
        self, text: Texts, bias: float | None = None, seed: int = 1, progress: Progress | None = None
    ) -> list[Strokes]: ...

    def write(
        self,
        text: Text | Texts = None,
        bias: float | None = None,
        seed: int = 1,
        progress: Progress | None = None,
    ) -> Strokes | list[Strokes]:
        """Draw strokes from the model: for a text, for each of several, or (None) where the model reads none.

        Args:
            bias: 0 draws from the density itself, more is neater; by default what the recipe says.
            seed: the same seed gives the same strokes.
            progress: called with the number of drawings done since the last call.

        Raises:
            UserError: a text that the model cannot read, or one for a model that reads none.
        """
        alone = text is None or isinstance(text, str)
        texts: list[Text] = [text] if text is None or isinstance(text, str) else [*text]
        bias = self.recipe.sampling.bias if bias is None else bias
        if not 0 <= bias <= 1000:
            raise UserError(f"the bias is {bias:g}; it may be 0 to 1000")
        generator = torch.Generator(self.device).manual_seed(seed)
        samples = self.map(
            batches_of(np.arange(len(texts))),
            lambda chosen: self._write([texts[index] for index in chosen], bias, generator),
            progress,
        )
        return samples[0] if alone else samples

    def _write(self, texts: list[Text], bias: float, generator: torch.Generator) -> list[Strokes]:
        """One step after another for all texts; rows that are over are drawn on and cut off afterwards.

        A row is over where the model says so, or where its window has left the whole text behind.
        """
        rows, limit = len(texts), self.recipe.sampling.max_points
        ids = self._read(texts)
        state = self.model.start(*ids, rows=rows)
        point = torch.zeros(rows, 3, device=self.device)
        over = torch.zeros(rows, dtype=torch.bool, device=self.device)
        drawn, looks, ends = [], [], torch.full((rows,), limit, device=self.device)
        for number in range(limit):
            values, state, weights = self.model.step(point, state)
            require_numbers(values)
            movement, marks = PenMixture.of(values, MARKS, bias).sample(generator)
            point = torch.cat([movement, marks[:, :1]], -1)
            drawn.append(point)
            looks += [] if weights is None else [weights]
            ended = marks[:, 1] > 0.5
            if weights is not None:
                ended |= weights.sum(1) < LEFT_BEHIND
            ending = ended & ~over
            ends[ending] = number + 1
            over |= ending
            if bool(over.all()):
                break
        points = torch.stack(drawn, 1)  # (B, T, 3)
        points[..., :2] *= self.model.deviation
        windows = torch.stack(looks, 1).cpu().numpy() if looks else None  # (B, T, U)
        drawings = []
        for row, (text, end) in enumerate(zip(texts, ends.tolist(), strict=True)):
            window = None
            if windows is not None and ids[1] is not None:
                window = windows[row, :end, : int(ids[1][row])]
            drawings.append(Strokes(points[row, :end].cpu().numpy(), text, window, finished=bool(over[row])))
        return drawings

    def _read(self, texts: Sequence[Text]) -> tuple[Tensor | None, Tensor | None]:
        """Ids (B, U) ended by EOS and lengths (B,); nothing where the model reads no text."""
        if self.tokenizer is None:
            given = next((text for text in texts if text is not None), None)
            if given is not None:
                raise UserError(f"this model draws from nothing and cannot write {given!r}; leave the text out")
            return None, None
        rows = []
        for text in texts:
            ids = self.tokenizer.encode(text or "")
            if not ids:
                raise UserError("this model writes texts, and there is none; give one in quotes")
            if UNK in ids:
                known = set(self.tokenizer.pieces(range(EOS + 1, self.tokenizer.size)))
                strange = next(character for character in " ".join((text or "").split()) if character not in known)
                raise UserError(
                    f"the text {text!r} has {strange!r}, which the model never saw; it knows {''.join(sorted(known))!r}"
                )
            rows.append(ids)
        padded, lengths = pad(rows, eos=True)
        return padded.to(self.device), lengths.to(self.device)

    def nats(self, drawings: Sequence[Drawing], progress: Progress | None = None) -> np.ndarray:
        """-log p of each drawing (N,), movements in units of the training data's deviation."""
        rows, deviation = StrokeRows(drawings, self.tokenizer), float(self.model.deviation)

        def run(indices: np.ndarray) -> np.ndarray:
            batch = rows.batch(indices, deviation).to(self.device)
            return nats_of_rows(self.model, batch).double().cpu().numpy()

        return np.array(self.map(batches_of(np.argsort(rows.lengths, kind="stable")), run, progress))

    def batch(self, drawings: Sequence[Drawing]) -> DrawnBatch:
        """Drawings as the network reads them, for `harken.inspection`.

        Raises:
            UserError: there is none, or one without the text that the model reads.
        """
        if not drawings or (self.tokenizer is not None and not all(drawing.text for drawing in drawings)):
            raise UserError("there is a drawing without its text, which this model reads, or none at all; give some")
        batch = StrokeRows(drawings, self.tokenizer).batch(np.arange(len(drawings)), float(self.model.deviation))
        return DrawnBatch(batch.to(self.device))

    def reading(self, example: str) -> tuple[DrawnBatch, list[str], str]:
        """Read the first drawing of a file, or a text as the model itself writes it, for `harken inspect --gates`.

        What stands at a step is the character that the window looks at; without a window, the number of the point.
        """
        drawing = self._drawing(example)
        batch = self.batch([drawing])
        drawn = batch.drawn
        with torch.no_grad():
            weights = self.model(drawn.before, drawn.characters, drawn.character_lengths).weights  # (1, T, U)
        if weights is None:
            return batch, [str(number + 1) for number in range(len(drawing))], f"{example}, point by point"
        names = [*(character.replace(" ", "␣") for character in " ".join((drawing.text or "").split())), "end"]
        return batch, [names[index] for index in weights[0].argmax(-1).tolist()], f"“{drawing.text}”, point by point"

    def _drawing(self, example: str) -> Drawing:
        if Path(example).is_file():
            return (read_npz(example)["test"] if example.endswith(".npz") else read_strokes(example))[0]
        if self.tokenizer is None:
            raise UserError(f"{example} is no file, and this model reads no text; give a file with a drawing (.jsonl)")
        return self.write(example).drawing()


def batches_of(order: np.ndarray) -> list[np.ndarray]:
    """Indices in batches, in this order."""
    return [order[start : start + BATCH] for start in range(0, len(order), BATCH)]


def build(recipe: HandwritingRecipe, tokenizer: Tokenizer | None) -> HandwritingModel:
    """The network that the recipe's `[model]` describes."""
    return HandwritingModel(recipe.model, 0 if tokenizer is None else tokenizer.size)
