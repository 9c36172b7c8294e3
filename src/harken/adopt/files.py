"""Files of a model folder in Hugging Face's format; none of them can run code."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from harken.data.tokenizers.base import Tokenizer
from harken.errors import UserError
from harken.files import expand_user, read_limited
from harken.recipe import Recipe
from harken.training.weights import load_tensors

LARGEST_JSON = 100_000_000  # bytes: vocabularies have some megabytes
WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")
DOWNLOADED = ["*.json", "*.safetensors", "*.spm", "*.model", "merges.txt", "vocab.txt"]  # nothing that can run code
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


def find_folder(folder: str | Path) -> Path:
    """A folder on this machine; a name on the hub is downloaded, without pickles.

    Raises:
        UserError: there is no such folder, and it is no name, the package is missing, or the download failed.
    """
    path = expand_user(folder)
    if path.exists() or not HUB_NAME.fullmatch(str(folder)):
        return path
    try:
        from huggingface_hub import snapshot_download
    except ModuleNotFoundError:
        raise UserError(
            f"{folder} is no folder; to download a model of that name from the hub, install huggingface_hub"
        ) from None
    try:
        return Path(snapshot_download(str(folder), allow_patterns=DOWNLOADED))
    except Exception as problem:  # of the network, the name, or a licence that has to be accepted
        reason = str(problem).strip().partition("\n")[0]
        raise UserError(f"{folder} is no folder, and cannot be downloaded from the hub: {reason}") from problem


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
