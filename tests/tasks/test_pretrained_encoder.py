"""Beginning with a masked model: vocabularies are joined, vectors go to the words they belong to."""

from pathlib import Path

import torch
from safetensors.torch import save_file

from harken.data.tokenizers.base import JOINT, train_tokenizer
from harken.data.tokenizers.word import WordTokenizer
from harken.models.config import TransformerConfig
from harken.models.heads.masked import MaskedModel
from harken.models.reader import Reader, TokenInput
from harken.models.transformer.encoder import TransformerEncoder
from harken.tasks.pretrained_encoder import start_from, starting_pieces, starting_tokenizer, starting_words


def reader(tokens: int) -> Reader:
    return Reader(
        TokenInput(tokens, 8), TransformerEncoder(TransformerConfig(layers=1, width=8, heads=2, feedforward=16))
    )


def masked_folder(folder: Path, kind: str, texts: list[str]) -> Reader:
    tokenizer = train_tokenizer(kind, texts, 100)
    tokenizer.save(folder, JOINT)
    made = reader(tokenizer.size)
    save_file(dict(MaskedModel(made).named_parameters()), folder / "model.safetensors")
    return made


def test_words_of_both_are_known_and_begin_with_what_was_learnt(tmp_path: Path) -> None:
    theirs = masked_folder(tmp_path, "word", ["the owl sleeps."])
    own = WordTokenizer.train(["the new film"], 100)
    joined = starting_tokenizer(tmp_path, own)
    assert joined.encode("the new film") == own.encode("the new film")
    assert 1 not in joined.encode("owl new.")
    ours = reader(joined.size)
    before = ours.inputs.table.weight.detach().clone()  # type: ignore[union-attr,operator]
    assert start_from(ours, tmp_path, joined) == 4 + 4  # the special ids, and the owl sleeps .
    table, source = ours.inputs.table.weight, theirs.inputs.table.weight  # type: ignore[union-attr]
    (owl,), (film,) = joined.encode("owl"), joined.encode("film")
    (place,) = WordTokenizer.train(["the owl sleeps."], 100).encode("owl")
    assert torch.equal(table[owl], source[place]) and torch.equal(table[film], before[film])  # type: ignore[index]


def test_other_pieces_are_taken_over_whole(tmp_path: Path) -> None:
    theirs = masked_folder(tmp_path, "character", ["the owl"])
    joined = starting_tokenizer(tmp_path, train_tokenizer("character", ["film"], 100))
    assert joined.encode("owl") and joined.size == theirs.inputs.table.weight.shape[0]  # type: ignore[union-attr,index]
    ours = reader(joined.size)
    assert start_from(ours, tmp_path, joined) == joined.size
    assert torch.equal(ours.inputs.table.weight, theirs.inputs.table.weight)  # type: ignore[union-attr,arg-type]
    pieces = starting_pieces(tmp_path)
    assert pieces is not None and pieces.encode("owl") == joined.encode("owl")


def test_a_taggers_words_have_no_marks_of_spacing(tmp_path: Path) -> None:
    masked_folder(tmp_path, "word", ["owls, owls. owls"])
    assert starting_pieces(tmp_path) is None and starting_pieces(None) is None
    assert set(starting_words(tmp_path)) == {"owls", ",", "."}
