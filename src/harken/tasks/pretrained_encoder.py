"""`[model] start`: the vocabulary and the weights of a masked model, for the jobs that begin with them.

words        the job keeps its own words and adds those of the masked model; what both know begins with its vectors
other pieces the masked model's tokenizer is taken over as it is; a tagger tags the first piece of each word

    tokenizer = starting_tokenizer(start, tokenizer)        before texts become ids
    start_from(model.reader, start, tokenizer)              once the network is built
"""

from __future__ import annotations

from pathlib import Path

from harken.data.tokenizers.base import JOINT, Tokenizer, load_tokenizer
from harken.data.tokenizers.tokens import SPECIALS
from harken.data.tokenizers.word import JOINED, WordTokenizer
from harken.models.pretrained import copy_weights, rows_in
from harken.models.reader import Reader


def starting_tokenizer(start: str | Path, own: Tokenizer) -> Tokenizer:
    """A tokenizer that knows what the masked model knows; with words, also what the job's own one does."""
    pretrained = load_tokenizer(start, JOINT)
    if not isinstance(pretrained, WordTokenizer) or not isinstance(own, WordTokenizer):
        return pretrained
    known = set(own.tokens)
    return WordTokenizer([*own.tokens, *(token for token in pretrained.tokens if token not in known)])


def start_from(reader: Reader, start: str | Path, tokenizer: Tokenizer) -> int:
    """Take encoder and token vectors over, with the tokenizer that `starting_tokenizer` made; counts the vectors."""
    pretrained = load_tokenizer(start, JOINT)
    if not isinstance(pretrained, WordTokenizer) or not isinstance(tokenizer, WordTokenizer):
        return copy_weights(reader, start)
    ids = {token: number for number, token in enumerate(pretrained.tokens, start=len(SPECIALS))}
    return copy_weights(reader, start, rows_in(tokenizer.tokens, ids))


def starting_pieces(start: str | Path | None) -> Tokenizer | None:
    """The tokenizer of a masked model that reads pieces, which a tagger then does too; None for one of words."""
    tokenizer = None if start is None else load_tokenizer(start, JOINT)
    return None if isinstance(tokenizer, WordTokenizer) else tokenizer


def starting_words(start: str | Path) -> dict[str, int]:
    """The words of a masked model with their ids, marks of spacing taken off; the more frequent where two are alike."""
    tokenizer = load_tokenizer(start, JOINT)
    assert isinstance(tokenizer, WordTokenizer)
    ids: dict[str, int] = {}
    for number, token in enumerate(tokenizer.tokens, start=len(SPECIALS)):
        ids.setdefault(token.replace(JOINED, "") or token, number)
    return ids
