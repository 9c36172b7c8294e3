"""Files of a model folder in Hugging Face's format; none of them can run code."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from harken.data.tokenizers.base import Tokenizer
from harken.errors import UserError
from harken.files import read_limited
from harken.recipe import Recipe
from harken.training.weights import load_tensors

LARGEST_JSON = 100_000_000  # bytes: vocabularies have some megabytes
WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json")


@dataclass
class Adopted:
    """The contents of a model folder.

    Args:
        tokenizers: each with the name of its file.
    """

    recipe: Recipe
    tensors: dict[str, Tensor]
    tokenizers: list[tuple[Tokenizer, str]]


def read_json(path: Path) -> Any:
    """The value in a JSON file.

    Raises:
        UserError: it is missing, too large or no JSON.
    """
    try:
        return json.loads(read_limited(path, LARGEST_JSON))
    except FileNotFoundError:
        raise UserError(f"{path} is missing; copy the whole folder of the model") from None
    except (OSError, ValueError, RecursionError) as problem:
        raise UserError(f"{path} cannot be read ({problem}); copy the folder of the model again") from None


def read_config(folder: Path) -> dict[str, Any]:
    """config.json.

    Raises:
        UserError: there is none, as in a folder of another kind.
    """
    if not folder.is_dir():
        raise UserError(f"{folder} is no folder; give the folder of a model in Hugging Face's format")
    config = read_json(folder / "config.json")
    if not isinstance(config, dict):
        raise UserError(f"{folder / 'config.json'} holds no object; copy the folder of the model again")
    return config


def read_weights(folder: Path) -> dict[str, Tensor]:
    """All tensors of model.safetensors, or of the files of its index.

    Raises:
        UserError: they are missing, damaged, or a pickle, which is not opened.
    """
    if (folder / WEIGHTS).is_file():
        return load_tensors(folder / WEIGHTS)[0]
    if (folder / INDEX).is_file():
        files = sorted({Path(name).name for name in read_json(folder / INDEX).get("weight_map", {}).values()})
        return {name: value for file in files for name, value in load_tensors(folder / file)[0].items()}
    if any((folder / name).is_file() for name in PICKLES):
        raise UserError(
            f"{folder} has its weights as a pickle ({PICKLES[0]}), which could run code and is not opened; load and "
            "save it with transformers (save_pretrained writes model.safetensors)"
        )
    raise UserError(f"{folder / WEIGHTS} is missing; copy the whole folder of the model")


def read_byte_level(folder: Path) -> tuple[dict[str, int], list[list[str]], bool]:
    """Pieces with their rows, merges, and whether a text is read after a space; of tokenizer.json or the older files.

    Raises:
        UserError: neither is there, or the tokenizer is of another kind.
    """
    path = folder / "tokenizer.json"
    if not path.is_file():
        vocabulary, lines = read_json(folder / "vocab.json"), folder / "merges.txt"
        if not lines.is_file():
            raise UserError(f"{lines} is missing; copy the whole folder of the model")
        pairs = [line.split(" ") for line in lines.read_text(encoding="utf-8").split("\n")]
        settings = folder / "tokenizer_config.json"
        spaced = (read_json(settings) if settings.is_file() else {}).get("add_prefix_space", False)
        return vocabulary, [pair for pair in pairs if len(pair) == 2 and pair[0] != "#version:"], bool(spaced)
    stored = read_json(path)
    model, splitter = stored.get("model") or {}, stored.get("pre_tokenizer") or {}
    if model.get("type") != "BPE" or splitter.get("type") != "ByteLevel" or stored.get("normalizer"):
        raise UserError(f"{path} holds no byte-level BPE as GPT-2 has it, which alone can be adopted")
    vocabulary = model["vocab"] | {token["content"]: token["id"] for token in stored.get("added_tokens", [])}
    merges = [pair.split(" ") if isinstance(pair, str) else list(pair) for pair in model["merges"]]
    return vocabulary, merges, bool(splitter.get("add_prefix_space", False))
