"""Descriptions of decoders on disk, by which a process decodes a model folder without building its network.

The description of a model (`harken.kernels.decoding.description`) is written once, by a process that has the network,
to a safetensors file in the user's cache folder: its fields as JSON in the metadata, in which a tensor is the name of
one of the model file, or of one in the file itself where it is computed from others. Tables of positions are computed
for `LONGEST` tokens. The name of the file is a digest of the weights' digest, the recipe's `[model]` and the code that
describes; where one of them changes, the file is not found, and the network is built again.

>>> text, arrays = flatten(description.Linear(np.zeros((2, 3)), None), {})
>>> restored(json.loads(text), arrays).weight.shape
(2, 3)
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from harken.files import cache_folder
from harken.kernels.decoding import description
from harken.kernels.decoding.description import Recurrent, Stack, Table, Transformer
from harken.lazy_torch import as_array

if TYPE_CHECKING:
    from torch import nn

LONGEST = 2048  # tokens that tables of positions are stored for
PARTS = {
    name: kind
    for name, kind in vars(description).items()
    if is_dataclass(kind) or (isinstance(kind, type) and issubclass(kind, tuple))
}
"""The classes of descriptions by their names."""
TABLES = ("positions", "angles", "biases")  # of a `Stack`


class StoredModel:
    """A model that the compiled search decodes by a stored description; `network` builds it where another needs it.

    Args:
        build: builds the network.
        facts: what was stored about it, beside the description.
    """

    def __init__(
        self, described: Transformer | Recurrent, build: Callable[[], nn.Module], facts: Mapping[str, Any]
    ) -> None:
        self.described, self._build, self.facts = described, build, facts
        self._network: nn.Module | None = None
        self._lock = threading.Lock()

    @property
    def network(self) -> nn.Module:
        """The network of the model folder, built once, also where several threads need it; imports torch."""
        with self._lock:
            if self._network is None:
                self._network = self._build()
            return self._network

    def eval(self) -> StoredModel:
        """The model itself, which does not train."""
        return self

    def __getattr__(self, name: str) -> Any:
        """An attribute of the network."""
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.network, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the network."""
        return self.network(*args, **kwargs)


def network_of(model: Any) -> Any:
    """The network of a stored model, any other model as it is."""
    return model.network if isinstance(model, StoredModel) else model


def flatten(value: Any, names: Mapping[int, str]) -> tuple[str, dict[str, np.ndarray]]:
    """A description as JSON, and its arrays that have no name.

    Args:
        names: those of tensors in the model file, by the id of the tensor.
    """
    arrays: dict[str, np.ndarray] = {}

    def store(array: np.ndarray) -> str:
        array = np.ascontiguousarray(array)
        name = hashlib.sha256(repr(array.shape).encode() + array.tobytes()).hexdigest()[:16]
        arrays[name] = array
        return name

    def plain(value: Any) -> Any:
        if type(value).__name__ in PARTS:
            keys = [field.name for field in fields(value)] if is_dataclass(value) else value._fields
            parts = {key: plain(getattr(value, key)) for key in keys}
            if isinstance(value, Stack):
                parts |= tables(value)
            return {"part": type(value).__name__, **parts}
        if isinstance(value, tuple):
            return [plain(each) for each in value]
        if value is None or callable(value) or isinstance(value, bool | int | float | str):
            return None if callable(value) else value
        return {"tensor": names[id(value)] if id(value) in names else store(as_array(value))}

    def tables(stack: Stack) -> dict[str, Any]:
        length = min(stack.max_length or LONGEST, LONGEST)
        given = {name: table for name in TABLES if (table := getattr(stack, name)) is not None}
        stored: dict[str, Any] = {name: {"table": store(as_array(table(length)))} for name, table in given.items()}
        return {**stored, "max_length": length} if given else {}

    return json.dumps(plain(value)), arrays


def restored(value: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    """A description from JSON and its arrays."""
    if isinstance(value, list):
        return tuple(restored(each, arrays) for each in value)
    if not isinstance(value, dict):
        return value
    if "tensor" in value:
        return arrays[value["tensor"]]
    kind: Any = PARTS[value["part"]]
    tables = {name: arrays[value[name]["table"]] for name in TABLES if value.get(name) is not None}
    parts = {name: restored(each, arrays) for name, each in value.items() if name != "part" and name not in tables}
    return kind(**parts, **{name: table_of(name, table) for name, table in tables.items()})


def table_of(name: str, stored: np.ndarray) -> Table:
    """The rows of positions, or the columns of biases by distance, for all lengths up to that of a stored table."""
    if name != "biases":
        return lambda length: stored[:length]  # type: ignore[return-value]
    longest = (stored.shape[1] + 1) // 2
    return lambda length: stored[:, longest - length : longest + length - 1]  # type: ignore[return-value]


@lru_cache
def _digest_of_code() -> bytes:
    package = Path(__file__).parent.parent
    parts = sorted([*(package / "models").glob("*/description.py"), *(package / "nn" / "positions").glob("*.py")])
    files = [Path(__file__), Path(description.__file__), *parts]  # positions: the tables that are stored
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).digest()


def file_of(digest: str, settings: str) -> Path:
    """The file of the description of a model with these weights, and with these settings as JSON."""
    key = hashlib.sha256(_digest_of_code() + f"{digest}|{settings}".encode()).hexdigest()[:32]
    return cache_folder() / "decoders" / f"{key}.safetensors"


def is_complete(described: Transformer | Recurrent | None) -> bool:
    """Whether a description says all that is needed to decode: it has the encoder, too."""
    if described is None or described.encoder is None:
        return False
    if isinstance(described, Transformer):
        return True
    cells = [cell for layer in described.encoder.stack.layers for cell in layer]
    return all(cell.nonlinearity == "tanh" and not cell.coupled and cell.peephole is None for cell in cells)


def vocabularies(described: Transformer | Recurrent) -> tuple[int, int]:
    """The numbers of source and of target tokens of a complete description."""
    encoder = described.encoder
    source = encoder.embedding if isinstance(encoder, description.RecurrentEncoder) else described.source_embedding  # type: ignore[union-attr]
    return len(source), len(described.target_embedding)
