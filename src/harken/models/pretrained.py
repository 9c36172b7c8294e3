"""Initialise a reader from a masked language model: its encoder, and the embeddings of shared tokens.

`[model] start = "runs/masked"` in a recipe for classification or tagging. The encoders must have the same config.

>>> rows_in(["cat", "owl"], {"owl": 7}, special=2)  # ids 0 and 1 are the same in both
[0, 1, -1, 7]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from harken.errors import UserError
from harken.models.heads.character_features import WordInput
from harken.models.reader import Reader, TokenInput
from harken.nn.recurrent.interop import accept_stored_names
from harken.nn.recurrent.stack import Stack

MODEL = "model.safetensors"
ENCODER, TABLE = "reader.encoder.", "reader.inputs.table.weight"
NOWHERE = -1


def copy_weights(reader: Reader, folder: str | Path, rows: Sequence[int] | None = None) -> int:
    """Copy the encoder of a masked model and its token embeddings; returns the number of embeddings copied.

    Args:
        rows: for every token of the reader's vocabulary its row in the folder's, -1 where that has none; such tokens
            keep their initial embeddings. None: both have the same vocabulary.

    Raises:
        UserError: the folder holds no masked model, or one of another shape.
    """
    tensors = _read(Path(folder))
    theirs = {name.removeprefix(ENCODER): value for name, value in tensors.items() if name.startswith(ENCODER)}
    for prefix, module in reader.encoder.named_modules():  # recurrent layers of earlier versions had other names
        if isinstance(module, Stack):
            accept_stored_names(module, theirs, f"{prefix}.")
    ours = dict(reader.encoder.named_parameters())
    wrong = sorted(set(theirs) ^ set(ours)) or [name for name in ours if ours[name].shape != theirs[name].shape]
    if wrong:
        raise UserError(
            f"the encoder of {folder} is another than this recipe's (first difference: {wrong[0]}); give [model] the "
            f"keys that {Path(folder) / 'recipe.toml'} has"
        )
    table, source = _table(reader), tensors[TABLE]
    if rows is None and table.shape != source.shape:
        raise UserError(
            f"{folder} has {len(source):,} tokens, but here are {len(table):,}; take its tokenizer over too"
        )
    chosen = torch.arange(len(table)) if rows is None else torch.as_tensor(rows)
    known = chosen != NOWHERE
    with torch.no_grad():
        for name, parameter in ours.items():
            parameter.copy_(theirs[name])
        table[known.to(table.device)] = source[chosen[known]].to(table)
    return int(known.sum())


def rows_in(tokens: Sequence[str], ids: Mapping[str, int], special: int = 4) -> list[int]:
    """For `copy_weights`: the special ids, then each token's id in another vocabulary, or -1."""
    return [*range(special), *(ids.get(token, NOWHERE) for token in tokens)]


def _table(reader: Reader) -> Tensor:
    inputs = reader.inputs
    if isinstance(inputs, WordInput):
        inputs = inputs.words
    if not isinstance(inputs, TokenInput):
        raise UserError("model.start is for models that read words, and this one reads frames; leave it out")
    return inputs.table.weight


def _read(folder: Path) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    path = folder / MODEL
    if not path.is_file():
        raise UserError(f"model.start is {folder}, which has no {MODEL}; train one with a recipe whose task is masked")
    try:
        tensors = load_file(path)
    except SafetensorError as problem:
        raise UserError(f"{path} is damaged ({problem}); train the model again or copy it anew") from problem
    if TABLE not in tensors:
        raise UserError(
            f"model.start is {folder}, which is no masked model; train one with a recipe whose task is masked"
        )
    return tensors
