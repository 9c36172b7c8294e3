"""Model files: the weights of a network in safetensors with a digest, loaded whole or not at all.

Reading a file can run no code. Files are written atomically and validated before use.

The file of an adapter (`harken.training.adapter`) has the factors of each matrix, `A.NAME` and `B.NAME`, and the digest
of the base that they belong to. The folder of the base is `adapt.start` of the recipe beside it.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from harken.errors import UserError
from harken.files import atomic_path, expand_user, read_limited
from harken.lazy_torch import torch
from harken.training.folder import MODEL, RECIPE

if TYPE_CHECKING:
    from torch import Tensor, nn

DIGEST, BASE = "sha256", "base"  # keys of the metadata: of the file itself, and of the base of an adapter
DOWN, UP = "A", "B"  # factors of an adapter
LARGEST_RECIPE = 10_000_000  # bytes


def save_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: dict[str, str] | None = None) -> None:
    """Write a safetensors file with a digest of its content, atomically.

    Raises:
        UserError: it cannot be written, usually because the disk is full.
    """
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    contents = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    metadata = dict(metadata or {})
    metadata[DIGEST] = digest_of(contents, metadata)
    with atomic_path(path) as temporary:
        try:
            save_file(contents, temporary, metadata)
        except SafetensorError as problem:
            raise UserError(
                f"{path} cannot be written ({problem}); free some space and continue with resume=True"
            ) from problem


def load_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors and metadata of a safetensors file, after its digest was checked (files of harken 0.1 have none).

    Raises:
        UserError: the file is missing, truncated, or its content is not what was written.
    """
    return _load(path, "pt")


def load_arrays(path: Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """`load_tensors` without torch, as arrays.

    Raises:
        UserError: as `load_tensors`; or there is a tensor of a type that numpy does not have, such as bfloat16.
    """
    return _load(path, "np")


def _load(path: Path, framework: str) -> tuple[dict[str, Any], dict[str, str]]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework) as stored:
            metadata = dict(stored.metadata() or {})
            tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError, TypeError, UnicodeError) as problem:
        raise UserError(f"{path} is damaged ({brief(problem)})") from problem
    except RuntimeError as problem:  # an allocation that the machine refuses
        raise UserError(f"{path} cannot be read ({brief(problem)})") from problem
    expected = metadata.pop(DIGEST, None)
    if expected is not None and expected != digest_of(tensors, metadata):
        raise UserError(f"{path} is damaged: its content does not match its checksum")
    if expected is not None:
        metadata[DIGEST] = expected
    return tensors, metadata


def stored_metadata(path: Path) -> dict[str, str]:
    """The metadata of a safetensors file, without its tensors; {} where it cannot be read."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "np") as stored:
            return dict(stored.metadata() or {})
    except (OSError, SafetensorError):
        return {}


def lineage(path: Path) -> list[Path]:
    """The files that a model file is read from: for an adapter that of its base first, else the file alone.

    Raises:
        UserError: the base is not there, or was written anew since the adapter was trained.
    """
    files = [path]
    while expected := stored_metadata(files[0]).get(BASE):
        adapter = files[0].parent
        base = base_folder(adapter) / MODEL
        if not base.is_file() or base in files:
            raise UserError(
                f"{adapter} is an adapter, and the model that it was trained on is not in {base.parent}; copy that "
                f"model there, or beside {adapter.name}, or set adapt.start in {adapter / RECIPE} to its folder"
            )
        if stored_metadata(base).get(DIGEST) != expected:
            raise UserError(
                f"{adapter} is an adapter of other weights than those in {base}, which were written anew since (their "
                "SHA-256 is another); restore the model that it was trained on, or train the adapter again"
            )
        files.insert(0, base)
    return files


def base_folder(adapter: Path) -> Path:
    """The folder of an adapter's base: `adapt.start` of its recipe, or where that is not there, its name beside it."""
    try:
        recipe = tomllib.loads(read_limited(adapter / RECIPE, LARGEST_RECIPE).decode())
        start = expand_user(str(recipe["adapt"]["start"]))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise UserError(f"{adapter} is an adapter, and adapt.start in its {RECIPE} names no base; restore it") from None
    named, beside = adapter / start, adapter.parent / start.name
    return named if named.is_dir() or not beside.is_dir() else beside


def read_weights(path: Path, model: nn.Module | None = None) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors of a model file, those of an adapter merged into its base, and the metadata of the base.

    Args:
        model: whose names the tensors of earlier versions get.

    Raises:
        UserError: a file is damaged, or an adapter does not fit its base.
    """
    paths = lineage(path)
    try:
        files = [load_tensors(file) for file in paths]
    except UserError as problem:
        raise UserError(f"{problem}; train the model again or copy it anew") from problem
    if model is not None:
        files = [(with_current_names(model, tensors), metadata) for tensors, metadata in files]
    tensors, metadata = files[0]
    for factors, _ in files[1:]:
        for name in (key.removeprefix(f"{DOWN}.") for key in factors if key.startswith(f"{DOWN}.")):
            try:
                tensors[name] = merged(tensors[name], factors[f"{DOWN}.{name}"], factors[f"{UP}.{name}"])
            except (KeyError, RuntimeError):
                raise UserError(f"{path} does not fit its base (first difference: {name[:200]})") from None
    return tensors, metadata


def merged(original: Tensor, down: Tensor, up: Tensor) -> Tensor:
    """W0 + B A, of an adapter's factors A (r, in) and B (out, r)."""
    return torch.addmm(original.to(up.dtype), up, down)


def digest_of(tensors: Mapping[str, Tensor | np.ndarray], metadata: Mapping[str, str]) -> str:
    """SHA-256 over names, types, shapes and bytes of tensors on the CPU or arrays, and over the metadata."""
    digest = hashlib.sha256(json.dumps(sorted(metadata.items())).encode())
    for name in sorted(tensors):
        value = tensors[name]
        prefix = "torch." if isinstance(value, np.ndarray) else ""
        digest.update(f"{name}|{prefix}{value.dtype}|{tuple(value.shape)}|".encode())
        if isinstance(value, np.ndarray):
            digest.update(np.ascontiguousarray(value).tobytes())
        elif value.numel():
            digest.update(value.contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def brief(problem: BaseException) -> str:
    """An error of a library as one short line."""
    return " ".join(str(problem).split())[:200]


def state_of(model: nn.Module) -> dict[str, Tensor]:
    """Parameters and persistent buffers by name, each shared tensor once."""
    parameters = dict(model.named_parameters())
    saved = model.state_dict(keep_vars=True)
    buffers = {name: value for name, value in model.named_buffers() if name in saved}
    return parameters | buffers


def with_current_names(model: nn.Module, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors of a file of an earlier version by today's names, wherever in a key the name is.

    A module whose parameters were called differently has `stored_names()`: old name -> new name.
    """
    renamed: dict[str, str] = {}
    for prefix, module in model.named_modules():
        known = module.stored_names() if hasattr(module, "stored_names") else {}
        dotted = f"{prefix}." if prefix else ""
        renamed |= {dotted + old: dotted + new for old, new in known.items()}
    current = {}
    for key, value in tensors.items():
        parts = key.split(".")
        for start in range(min(3, len(parts))):  # "model.NAME", "average.NAME", "optimizer.exp_avg.NAME" or a bare NAME
            name = ".".join(parts[start:])
            if name in renamed:
                key = ".".join([*parts[:start], renamed[name]])
                break
        current[key] = value
    return current


def load_weights(model: nn.Module, path: Path) -> None:
    """Copy the tensors of a model file into a model, all of them or none; an adapter is merged into its base.

    Raises:
        UserError: the file is damaged, belongs to another recipe, or holds values that are not finite.
    """
    tensors, metadata = read_weights(path, model)
    state = state_of(model)
    optional = set() if DIGEST in metadata else set(state) - {name for name, _ in model.named_parameters()}
    wrong = sorted((set(tensors) ^ set(state)) - optional) or [
        name for name, value in tensors.items() if value.shape != state[name].shape
    ]
    if wrong:
        raise UserError(
            f"{path} does not match the recipe.toml beside it (first difference: {wrong[0][:200]}); was one replaced?"
        )
    for name, value in tensors.items():
        if value.is_floating_point() and not _is_finite(value):
            raise UserError(
                f"{path} has NaN or infinite values in {name[:200]}; training diverged or the file was changed, so "
                "train again with a lower train.learning_rate"
            )
    with torch.no_grad():
        for name, value in tensors.items():
            state[name].copy_(value)


def _is_finite(values: Tensor) -> bool:
    """Whether no value is NaN or infinite; the least and the largest show it, in one pass and without a mask."""
    return not values.numel() or all(bool(torch.isfinite(bound)) for bound in torch.aminmax(values))
