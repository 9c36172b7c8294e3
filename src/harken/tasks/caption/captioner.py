"""A trained captioner: the model folder as an object.

model = harken.load("runs/scenes")
model.caption("picture.png").text    # 'a small red circle left of a large blue square'
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack, overload

import numpy as np
import torch
from torch import Tensor

from harken.data.images.captioned import Captioned
from harken.data.images.files import as_pixels, read_image, to_square
from harken.data.io.token_rows import pad
from harken.data.tokenizers.base import TARGET, Tokenizer
from harken.data.tokenizers.tokens import BOS
from harken.errors import UserError
from harken.inspection.measures.gates import ENDS, axis_pieces
from harken.metrics.alignment import merge_subwords
from harken.models.captioning.model import CaptionModel, build_caption_model, to_images
from harken.search import Hypothesis
from harken.search.config import SearchConfig
from harken.search.descriptions import CaptionKeys
from harken.search.dispatch import DecodingCall, decode
from harken.tasks.artifacts import TokenizerArtifact
from harken.tasks.caption.recipe import CaptionRecipe
from harken.tasks.inspected import InspectedBatch
from harken.tasks.keywords import show_keywords
from harken.tasks.predictor import Predictor, Progress
from harken.tasks.results import Printing, Result

if TYPE_CHECKING:
    from harken.inspection.pictures.drawings import CaptionMap


@dataclass
class Caption(Result):
    """One caption of one picture."""

    text: str
    score: float  # log-probability, normalised by length as the search ranks it
    attention: np.ndarray | None  # (T, rows, columns) for the words of the text; each map sums to 1
    image: np.ndarray = field(repr=False)  # (Y, X, 3) as the model saw it
    note: str = ""  # what was done to the picture before, such as cropping
    name: str = ""  # of the picture's file

    @property
    def words(self) -> list[str]:
        """The whitespace words that `attention` has a map for."""
        return self.text.split()

    @property
    def picture(self) -> CaptionMap:
        """The picture, darkened for every word where it did not look.

        Raises:
            UserError: the model does not attend, or wrote nothing.
        """
        from harken.inspection.pictures.drawings import CaptionMap

        if self.attention is None:
            raise UserError("this captioner has no attention to show; train one that attends, such as scenes-caption")
        if not self.words:
            raise UserError(f"the model writes no word for {self.name or 'the picture'}, so no map; train it longer")
        return CaptionMap(self.image, self.words, self.attention, self.text, [self.note] if self.note else [])

    @property
    def notes(self) -> list[str]:  # type: ignore[override]
        """Notes for the user of a command on changes made to the picture."""
        return [f"{self.name}: {self.note}"] if self.note else []

    def figure(self) -> CaptionMap:
        return self.picture

    def to_json(self, options: Any) -> dict[str, Any]:
        maps = None if self.attention is None else self.attention.round(4).tolist()
        values = {"image": self.name, "text": self.text, "score": round(self.score, 4), "words": self.words}
        return {**values, "attention": maps, "note": self.note}

    def to_text(self, options: Any, printing: Printing) -> str:
        text = self.text if printing.is_single else f"{self.name}\t{self.text}"
        if printing.is_terminal and self.attention is not None and self.words:
            return f"{text}\n\n{self.picture.to_terminal()}\n"
        return text

    def __str__(self) -> str:
        return self.text


TOKENIZER = TokenizerArtifact(TARGET)
Image = str | Path | np.ndarray
Images = Sequence[Path] | Sequence[np.ndarray] | list[str] | tuple[str, ...]


class Pixels(NamedTuple):
    """A picture as the model takes it."""

    image: np.ndarray  # (size, size, 3) bytes
    note: str  # what was done to it
    name: str


class Captioner(Predictor[CaptionRecipe, CaptionModel]):
    """Model, tokenizer and recipe of one folder; load it with `harken.load`."""

    tokenizer: Tokenizer
    parts = (("tokenizer", TOKENIZER),)

    @staticmethod
    def build(recipe: CaptionRecipe, tokenizer: Tokenizer) -> CaptionModel:
        """A network with new weights."""
        return build_caption_model(recipe.model, recipe.data.image_size, tokenizer.size)

    @overload
    def caption(self, images: Image, *, progress: Progress | None = None, **search: Unpack[CaptionKeys]) -> Caption: ...
    @overload
    def caption(
        self, images: Images, *, progress: Progress | None = None, **search: Unpack[CaptionKeys]
    ) -> list[Caption]: ...

    @show_keywords(CaptionKeys)
    def caption(
        self, images: Image | Images, *, progress: Progress | None = None, **search: Unpack[CaptionKeys]
    ) -> Caption | list[Caption]:
        """The best caption of a picture, or of each of several: files, or arrays (Y, X, 3).

        Args:
            progress: called with the number of pictures done since the last call.
            search: any key of the recipe's [search] table, such as `sample=True`.

        Raises:
            UserError: a file that is no picture, or an option that does not fit.
        """
        alone, size = isinstance(images, str | Path | np.ndarray), self.recipe.search.batch_sentences
        given: list[Image] = [images] if isinstance(images, str | Path | np.ndarray) else [*images]
        batches = [range(start, min(start + size, len(given))) for start in range(0, len(given), size)]
        changes = {name: value for name, value in search.items() if value is not None}
        options = self.recipe.search.changed(changes)

        def run(chosen: Sequence[int]) -> list[Caption]:
            return self._captions([self.read(given[i]) for i in chosen], options, torch.tensor(list(chosen)))

        captions = self.map(batches, run, progress)
        return captions[0] if alone else captions

    def read(self, image: Image) -> Pixels:
        """A file or an array as the model takes it; one of another size is cropped and scaled, which the note says.

        Raises:
            UserError: no such file, or no picture.
        """
        named = isinstance(image, str | Path)
        pixels = read_image(image) if isinstance(image, str | Path) else as_pixels(image)
        size, (height, width) = self.recipe.data.image_size, pixels.shape[:2]
        note = ""
        if (height, width) != (size, size):
            cropped = " cropped to its middle square and" if height != width else ""
            note = f"{width} x {height} pixels,{cropped} scaled to {size} x {size}"
        return Pixels(to_square(pixels, size), note, str(image) if named else "")

    def batch(self, examples: Sequence[Image | Captioned]) -> InspectedBatch:
        """Pictures with the first of their captions, or with the one it writes itself, for `harken.inspection`.

        Raises:
            UserError: a file that is no picture; or there is none.
        """
        if not examples:
            raise UserError("there is no picture to look at; give at least one")
        pictures = [
            self.read(example.image if isinstance(example, Captioned) else example).image for example in examples
        ]
        texts = [
            example.captions[0] if isinstance(example, Captioned) else self.caption(example).text
            for example in examples
        ]
        rows = [self.tokenizer.encode(text) for text in texts]
        before, lengths = pad([[BOS, *row] for row in rows], eos=False)
        after, _ = pad(rows, eos=True)
        images = to_images(torch.from_numpy(np.stack(pictures)).to(self.device))
        before, after, last = (tensor.to(self.device) for tensor in (before, after, lengths - 1))

        def logits(network: CaptionModel, images: Tensor, target: Tensor) -> Tensor:
            return network.logits(network(images, None, target))

        return InspectedBatch((images, before), after, last, logits)

    def reading(self, image: str) -> tuple[InspectedBatch, dict[str, list[str]], str]:
        """Read a file for `harken inspect --gates`: a batch, what the decoder reads at its steps, and a title."""
        batch = self.batch([image])
        read = axis_pieces(self.tokenizer, batch.inputs[1][0, 1:].tolist())
        return batch, {"decoder": [ENDS[0], *read]}, f"{image} → {' '.join(read)}"

    def _captions(self, pictures: Sequence[Pixels], options: SearchConfig, numbers: Tensor) -> list[Caption]:
        images = to_images(torch.from_numpy(np.stack([picture.image for picture in pictures])).to(self.device))
        hypotheses = self._search(images, options, numbers)
        maps = self._maps(images, hypotheses)
        return [
            Caption(self.tokenizer.decode(best.tokens), best.normalised, weights, *picture)
            for best, weights, picture in zip(hypotheses, maps, pictures, strict=True)
        ]

    def _search(self, images: Tensor, options: SearchConfig, numbers: Tensor) -> list[Hypothesis]:
        limit, longest = options.max_length_extra, self.recipe.model.longest
        limit = limit if longest is None else min(limit, longest - 1)
        call = DecodingCall(self.model, images, None, limit, options, row_numbers=numbers)
        return [best[0] for best in decode(call)]

    def _maps(self, images: Tensor, hypotheses: Sequence[Hypothesis]) -> list[np.ndarray | None]:
        """Weights (words, rows, columns) of every caption, by reading it once under teacher forcing."""
        target, _ = pad([[BOS, *best.tokens] for best in hypotheses], eos=False)
        weights = self.model.attention(images, None, target.to(self.device))  # (B, L, N, T, S)
        if weights is None:
            return [None] * len(hypotheses)
        aligned = self.model.alignment(weights).float().cpu().numpy()  # (B, T, S)
        first, regions = 1 if self.model.alignment_shift else 0, list(range(aligned.shape[2]))
        maps: list[np.ndarray | None] = []
        for row, best in zip(aligned, hypotheses, strict=True):
            text = self.tokenizer.decode(best.tokens)
            words = self.tokenizer.word_of(best.tokens, text)
            pieces = row[first : first + len(best.tokens)]  # (T, S)
            merged = merge_subwords(pieces, words, regions, len(text.split()), len(regions))
            maps.append(merged.reshape(-1, *self.model.grid))
        return maps
