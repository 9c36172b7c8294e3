"""Whether what a synthesizer writes can be read: by a recogniser that has only ever seen real strokes.

y_t = softmax(W BiLSTM(x)_t)           a character, or nothing, at every point of the pen: movement, height, lifted
read = the likeliest at each point, repeats and nothings left out

It is trained by connectionist temporal classification (Graves et al., 2006), which needs to know what was written and
not where. Of the built-in font it is given lines from other random numbers than the synthesizer was; of other corpora
their training drawings. The characters read right are those of the text less the edits (Levenshtein, 1966) between text
and reading, so letters too many count as well as letters missing. Spaces, which leave no ink, are not counted.

>>> edits("kitten", "sitting").total
3
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from harken.data.strokes.corpus import read_strokes_corpus
from harken.data.strokes.drawing import Drawing
from harken.data.strokes.rows import StrokeRows
from harken.data.synthetic.penfont import penfont
from harken.data.tokenizers.base import Tokenizer
from harken.metrics.edits import edits
from harken.nn.masks import length_mask
from harken.nn.recurrent.layers import LSTM
from harken.training.optimizers import factor
from harken.training.weights import load_weights, save_tensors

if TYPE_CHECKING:
    from harken.tasks.handwriting.synthesizer import HandwritingSynthesizer

FILE = "recogniser.safetensors"
WIDTH, STEPS, WARMUP, BATCH, RATE = 80, 2000, 50, 48, 4e-3
OTHER_SEED = 1000  # added to the seed of the synthesizer's font
LINES = 6000
NOTHING = 0  # CTC's blank takes the place of padding
SEEN = 4  # dx, dy, height, lifted
LOW = 0.2  # of the height above the base line, so that it is as large as the movements


class Recogniser(nn.Module):
    """Two bidirectional LSTM layers over points, and a character or nothing at each."""

    def __init__(self, characters: int, width: int = WIDTH) -> None:
        super().__init__()
        self.deviation = nn.Parameter(torch.ones(()), requires_grad=False)
        self.layers = LSTM(SEEN, width, 2, bidirectional=True, batch_first=True, orthogonal=True)
        self.output = nn.Linear(2 * width, characters)

    def forward(self, points: Tensor, lengths: Tensor) -> Tensor:
        """Points (B, T, 4), normalised -> log-probabilities (B, T, V)."""
        hidden, _ = self.layers(points, lengths=lengths)
        return torch.log_softmax(self.output(hidden), -1)

    @torch.no_grad()
    def read(self, drawings: Sequence[Drawing], tokenizer: Tokenizer) -> list[str]:
        """Recognise the texts of drawings."""
        texts: list[str] = []
        for start in range(0, len(drawings), BATCH):
            points, lengths = self.points(StrokeRows(drawings[start : start + BATCH]))
            best = self(points, lengths).argmax(-1)  # (B, T)
            best[~length_mask(lengths, best.shape[1])] = NOTHING
            for row in best:
                apart = torch.unique_consecutive(row)
                texts.append(tokenizer.decode(apart[apart != NOTHING].tolist()).strip())
        return texts

    def points(self, rows: StrokeRows, chosen: np.ndarray | None = None) -> tuple[Tensor, Tensor]:
        """Points (B, T, 4), normalised, and lengths (B,)."""
        batch = rows.batch(np.arange(len(rows)) if chosen is None else chosen, float(self.deviation))
        height = LOW * batch.movement[..., 1:].cumsum(1)
        return torch.cat([batch.movement, height, batch.marks[..., :1]], -1), batch.lengths


def train_recogniser(
    drawings: Sequence[Drawing],
    tokenizer: Tokenizer,
    seed: int = 1,
    steps: int = STEPS,
    progress: Callable[[int], None] | None = None,
) -> Recogniser:
    """A recogniser of real strokes; the same for the same drawings and seed."""
    torch.manual_seed(seed)
    random = np.random.default_rng(seed)
    model = Recogniser(tokenizer.size)
    rows = StrokeRows(drawings, tokenizer)
    assert rows.texts is not None
    with torch.no_grad():
        model.deviation.fill_(float(np.sqrt(np.square(rows.flat[:, :2]).mean())) or 1.0)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, RATE, betas=(0.9, 0.98), weight_decay=0.0)
    for step in range(steps):
        chosen = random.choice(len(rows), min(BATCH, len(rows)), replace=False)
        points, lengths = model.points(rows, chosen)
        texts, text_lengths = rows.texts.gather(chosen)
        chances = model(points, lengths).transpose(0, 1)  # (T, B, V)
        # The texts end with EOS, which is not written: one character less.
        loss = F.ctc_loss(chances, texts, lengths, text_lengths - 1, blank=NOTHING, zero_infinity=True)
        for group in optimizer.param_groups:
            group["lr"] = RATE * factor("cosine", step + 1, step / steps, WARMUP)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        if progress is not None and step % 20 == 19:
            progress(20)
    return model.eval()


def recogniser_for(synthesizer: HandwritingSynthesizer, progress: Callable[[int], None] | None = None) -> Recogniser:
    """The recogniser in the synthesizer's folder; trained, and kept there, where there is none yet (minutes)."""
    assert synthesizer.tokenizer is not None
    path = None if synthesizer.folder is None else synthesizer.folder / FILE
    if path is not None and path.is_file():
        model = Recogniser(synthesizer.tokenizer.size)
        load_weights(model, path)
        return model.eval()
    model = train_recogniser(real_strokes(synthesizer), synthesizer.tokenizer, progress=progress)
    if path is not None and _may_write(path):
        save_tensors(path, dict(model.named_parameters()))
    return model


def real_strokes(synthesizer: HandwritingSynthesizer) -> list[Drawing]:
    """The drawings that the recogniser is trained on."""
    data = synthesizer.recipe.data
    if data.corpus:
        return penfont(LINES, data.seed + OTHER_SEED, held_out=0)["train"]
    return read_strokes_corpus(data).splits["train"]


@dataclass(frozen=True)
class Reading:
    """The texts of some drawings, and the texts that were recognised in them."""

    texts: list[str]
    read: list[str]

    @property
    def right(self) -> np.ndarray:
        """Characters of each text that were read right."""
        pairs = zip(self.texts, self.read, strict=True)
        return np.array([max(0, len(text) - edits(text, texts).total) for text, texts in pairs])

    @property
    def lengths(self) -> np.ndarray:
        """Characters of each text."""
        return np.array([len(text) for text in self.texts])

    @property
    def share(self) -> float:
        """The share of all characters that were read right."""
        return float(self.right.sum() / max(1, self.lengths.sum()))


def read_drawings(recogniser: Recogniser, drawings: Sequence[Drawing], tokenizer: Tokenizer) -> Reading:
    """Read drawings whose texts are known; spaces are left out on both sides."""
    texts = ["".join((drawing.text or "").split()) for drawing in drawings]
    return Reading(texts, ["".join(text.split()) for text in recogniser.read(drawings, tokenizer)])


def _may_write(path: Path) -> bool:
    import os

    return os.access(path.parent, os.W_OK)
