"""Safetensors files with a digest of their content, written atomically and validated as a whole before use."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from harken.errors import UserError
from harken.files import atomic_path

DIGEST = "sha256"  # key of the metadata


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
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "pt") as stored:
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


def digest_of(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> str:
    """SHA-256 over names, types, shapes and bytes of tensors on the CPU, and over the metadata."""
    digest = hashlib.sha256(json.dumps(sorted(metadata.items())).encode())
    for name in sorted(tensors):
        value = tensors[name]
        digest.update(f"{name}|{value.dtype}|{tuple(value.shape)}|".encode())
        if value.numel():
            digest.update(value.contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def brief(problem: BaseException) -> str:
    """An error of a library as one short line."""
    return " ".join(str(problem).split())[:200]
