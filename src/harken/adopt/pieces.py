"""SentencePiece models with other ids: the pieces of a vocabulary in its order, behind harken's special tokens.

A SentencePiece model is a protocol buffer; of its fields only the pieces are written anew:

    1 pieces, each 1 text, 2 score, 3 type (1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte)
    2 trainer_spec, of it 3 model_type (1 unigram, 2 byte-pair encoding)
    3 normalizer_spec, of it 2 the rules by which characters are replaced, compiled
"""

from __future__ import annotations

import io
import struct
import sys
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from harken.data.tokenizers.tokens import SPECIALS, UNK
from harken.errors import UserError

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED = 1, 2, 3, 4, 5
PIECES, TRAINER, MODEL_TYPE, BYTE_PAIRS = 1, 2, 3, 2
NORMALIZER, RULES = 3, 2
VARINT, DOUBLE, BYTES, FLOAT = 0, 1, 2, 5  # wire types
UNKNOWN_PENALTY = 10.0  # by which an unknown character scores below the lowest piece


class Piece(NamedTuple):
    """One piece of a model."""

    text: str
    score: float = 0.0
    kind: int = NORMAL


def read_pieces(model: bytes, name: str) -> list[Piece]:
    """The pieces of a SentencePiece model.

    Raises:
        UserError: it is none.
    """
    try:
        pieces = [_read_piece(value) for number, _, value in _fields(model) if number == PIECES]
    except (IndexError, ValueError, struct.error):
        pieces = []
    if not pieces:
        raise UserError(f"{name} is not a SentencePiece model; copy the file again")
    return pieces


def with_vocabulary(
    model: bytes,
    texts: Sequence[str],
    user_defined: Mapping[str, str] | None = None,
    control: Collection[str] = (),
) -> bytes:
    """The model with the ids of a vocabulary: special tokens, then these texts.

    Args:
        texts: every piece of the model must be among them. Of those that are not its pieces, a single character gets
            its own id where the model finds it unknown; the others never occur.
        user_defined: texts that are one piece wherever they occur, and how they are written there.
        control: texts that are no pieces of any text, such as the tokens of languages.

    Raises:
        UserError: a model of byte-pair encoding lacks pieces of the vocabulary, which would change how it merges.
    """
    known = {piece.text: piece for piece in read_pieces(model, "the model")}
    lowest = min(piece.score for piece in known.values()) - UNKNOWN_PENALTY
    special = [Piece(text, 0.0, UNKNOWN if number == UNK else CONTROL) for number, text in enumerate(SPECIALS)]
    others = user_defined or {}
    pieces = [
        Piece(others.get(text, text), 0.0, CONTROL if text in control else USER_DEFINED)
        if text in others or text in control
        else known.get(text) or Piece(text, lowest, NORMAL if len(text) == 1 else UNUSED)
        for text in texts
    ]
    if is_byte_pairs(model) and any(text not in known and text not in others and text not in control for text in texts):
        raise UserError("a vocabulary has pieces that its SentencePiece model (byte-pair encoding) does not have")
    return with_pieces(model, [*special, *pieces])


def with_pieces(model: bytes, pieces: Sequence[Piece]) -> bytes:
    """The model with other pieces."""
    rest = b"".join(_field(number, wire, value) for number, wire, value in _fields(model) if number != PIECES)
    return b"".join(_field(PIECES, BYTES, _write_piece(piece)) for piece in pieces) + rest


def with_spaces(model: bytes) -> bytes:
    """The model with rules that read white space of any kind as a space, and ▁ as _, as harken's tokenizer does.

    A model that has rules of its own stays as it is.
    """
    fields = list(_fields(model))
    if any(number == RULES and value for number, value in _normalizer(fields)):
        return model
    rules = _field(RULES, BYTES, _space_rules())
    return b"".join(
        _field(number, wire, value + rules if number == NORMALIZER else value) for number, wire, value in fields
    )


def _normalizer(fields: Sequence[tuple[int, int, bytes]]) -> list[tuple[int, bytes]]:
    """Number and value of the fields of the normaliser."""
    spec = next((value for number, _, value in fields if number == NORMALIZER), b"")
    return [(number, value) for number, _, value in _fields(spec)]


@cache
def _space_rules() -> bytes:
    """The compiled rules, taken from a small model that sentencepiece makes with them."""
    import sentencepiece

    spaces = [code for code in range(sys.maxunicode) if chr(code).isspace() and chr(code) != " "]
    with tempfile.TemporaryDirectory() as folder:
        rules = Path(folder, "rules.tsv")
        rules.write_text("".join(f"{code:X}\t20\n" for code in spaces) + "2581\t5F\n", encoding="utf-8")
        compiled = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(["a b"]), model_writer=compiled, model_type="char", vocab_size=6,
            hard_vocab_limit=False, normalization_rule_tsv=str(rules), minloglevel=2,
        )  # fmt: skip
    return dict(_normalizer(list(_fields(compiled.getvalue()))))[RULES]


def is_byte_pairs(model: bytes) -> bool:
    """Whether a SentencePiece model is one of byte-pair encoding."""
    return _model_type(model) == BYTE_PAIRS


def _model_type(model: bytes) -> int:
    for number, _, value in _fields(model):
        if number == TRAINER:
            return next(
                (int.from_bytes(inner, "little") for field, _, inner in _fields(value) if field == MODEL_TYPE), 1
            )
    return 1


def _read_piece(data: bytes) -> Piece:
    values = {number: value for number, _, value in _fields(data)}
    score = struct.unpack("<f", values[2])[0] if 2 in values else 0.0
    return Piece(values[1].decode(), score, values[3][0] if 3 in values else NORMAL)


def _write_piece(piece: Piece) -> bytes:
    score = struct.pack("<f", piece.score)
    return _field(1, BYTES, piece.text.encode()) + _field(2, FLOAT, score) + _field(3, VARINT, bytes([piece.kind]))


def _fields(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Number, wire type and bytes of every field; of a varint its bytes as they are."""
    position = 0
    while position < len(data):
        key, position = _varint(data, position)
        number, wire = key >> 3, key & 7
        if wire == VARINT:
            _, end = _varint(data, position)
        elif wire == BYTES:
            size, position = _varint(data, position)
            end = position + size
        elif wire in (DOUBLE, FLOAT):
            end = position + (8 if wire == DOUBLE else 4)
        else:
            raise ValueError(f"wire type {wire}")
        if end > len(data):
            raise ValueError("cut off")
        yield number, wire, data[position:end]
        position = end


def _field(number: int, wire: int, value: bytes) -> bytes:
    size = _write_varint(len(value)) if wire == BYTES else b""
    return _write_varint(number << 3 | wire) + size + value


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """A number in groups of seven bits, and the position after it."""
    value = shift = 0
    while True:
        byte = data[position]
        value |= (byte & 127) << shift
        position, shift = position + 1, shift + 7
        if byte < 128:
            return value, position


def _write_varint(value: int) -> bytes:
    groups = []
    while value > 127:
        groups.append(value & 127 | 128)
        value >>= 7
    return bytes([*groups, value])
