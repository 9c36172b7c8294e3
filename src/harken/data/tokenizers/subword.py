"""Subwords by sentencepiece: byte-pair encoding or a unigram language model.

Sennrich et al. (2016), "Neural Machine Translation of Rare Words with Subword Units"; Kudo (2018), "Subword
Regularization". The pieces are learned on raw text; `▁` starts a whitespace word. White space of any kind counts as one
space, so that pieces and whitespace words always agree.

>>> tokenizer = SubwordTokenizer.train("bpe", ["low lower lowest"] * 3, size=25)
>>> tokenizer.decode(tokenizer.encode("lowest low"))
'lowest low'
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harken.data.tokenizers.tokens import BOS, EOS, PAD, SPECIALS, UNK
from harken.data.tokenizers.vocabulary import UNKNOWN_SURFACE
from harken.errors import UserError
from harken.files import atomic_write

SPACE = "▁"


class SubwordTokenizer:
    """A sentencepiece model, held as the bytes of its file."""

    def __init__(self, model: bytes, name: str = "the tokenizer") -> None:
        import sentencepiece

        try:
            processor = sentencepiece.SentencePieceProcessor()
            processor.LoadFromSerializedProto(model)
            specials = (processor.pad_id(), processor.unk_id(), processor.bos_id(), processor.eos_id())
        except RuntimeError as error:
            raise UserError(f"{name} is not a sentencepiece model: copy the file again or train anew.") from error
        if specials != (PAD, UNK, BOS, EOS):
            raise UserError(
                f"{name} has the ids {specials} for padding, unknown, beginning and end, not {(PAD, UNK, BOS, EOS)}: "
                "train it with pad_id=0, unk_id=1, bos_id=2, eos_id=3."
            )
        self.model = model
        self.size: int = processor.get_piece_size()
        self._processor = processor
        self._pieces = [processor.id_to_piece(index) for index in range(self.size)]
        self.fallback_ids = frozenset((UNK, *filter(processor.is_byte, range(self.size))))

    @classmethod
    def train(
        cls,
        kind: str,
        texts: Sequence[str],
        size: int,
        character_coverage: float = 1.0,
        byte_fallback: bool = False,
        normalization: str = "identity",
        symbols: Sequence[str] = (),
    ) -> SubwordTokenizer:
        """Learn the pieces; where the text cannot fill `size`, the largest vocabulary it can fill.

        Args:
            symbols: characters that are always a piece of their own, in the text or not.

        Raises:
            UserError: there is no text, or `size` is too small for the characters of the text.
        """
        texts = [normalised for text in texts if (normalised := _normalise(text))]
        if not texts:
            raise UserError("There is no text to learn subwords from: check that the training text is not empty.")
        options: dict[str, Any] = {
            "model_type": kind,
            "vocab_size": size,
            "character_coverage": character_coverage,
            "byte_fallback": byte_fallback,
            "normalization_rule_name": normalization,
            "user_defined_symbols": list(symbols),
        }
        try:
            return cls(_train(texts, options))
        except RuntimeError as error:
            needed = re.search(r"smaller than required_chars\. \d+ vs (\d+)", str(error))
            if needed:
                raise UserError(
                    f"tokenizer.size {size} is too small, the characters of the text alone need {needed[1]}: "
                    "raise tokenizer.size or lower tokenizer.character_coverage."
                ) from error
            if "Vocabulary size too high" not in str(error):
                raise
            return cls(_train(texts, options | {"hard_vocab_limit": False}))

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without beginning or end of sentence."""
        return list(self._processor.encode(_normalise(text)))

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of many texts, in one call."""
        return list(self._processor.encode([_normalise(text) for text in texts])) if texts else []

    def decode(self, ids: Sequence[int]) -> str:
        """The text behind the ids; padding, beginning and end are dropped, unknown pieces show as ⁇."""
        return str(self._processor.decode([int(index) for index in ids if index not in (PAD, BOS, EOS)]))

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The piece behind every id."""
        return [self._pieces[index] for index in ids]

    def word_of(self, ids: Sequence[int], text: str) -> list[int]:
        """The whitespace word of `text` that each id belongs to; a lone ▁ belongs to the word after it."""
        last = max(0, len(text.split()) - 1)
        result: list[int] = []
        word, inside = -1, False
        for piece in self.pieces(ids):
            if piece.startswith(SPACE):
                inside = False
            if piece.strip(SPACE) and not inside:
                word, inside = word + 1, True
            result.append(min(word if inside else word + 1, last))
        return result

    def save(self, folder: Path, name: str) -> list[Path]:
        """Write NAME.model; a NAME.json that an earlier tokenizer left is removed."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{name}.model"
        atomic_write(path, self.model)
        (folder / f"{name}.json").unlink(missing_ok=True)
        return [path]


def _normalise(text: str) -> str:
    return " ".join(text.replace(SPACE, "_").split())


def _train(texts: list[str], options: dict[str, Any]) -> bytes:
    import sentencepiece

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts),
        model_writer=model,
        pad_id=PAD,
        unk_id=UNK,
        bos_id=BOS,
        eos_id=EOS,
        pad_piece=SPECIALS[PAD],
        unk_piece=SPECIALS[UNK],
        bos_piece=SPECIALS[BOS],
        eos_piece=SPECIALS[EOS],
        unk_surface=UNKNOWN_SURFACE,
        max_sentence_length=1 << 16,  # bytes; longer lines do not take part
        num_threads=1,  # the same model whatever the machine
        minloglevel=2,
        **options,
    )
    return model.getvalue()
