"""Checkpoints and model files: safetensors with a digest, written atomically, validated as a whole before use.

A checkpoint holds tensors (weights and buffers, their average, the optimizer's state, carried states) and a JSON state
(step, position in the data, best score, time) in one safetensors file: reading it can run no code, and a kill at any
moment leaves either the old checkpoint or the new one. The last two are kept, so that a damaged file costs some steps,
not the run. Random state needs no entry: every step seeds it from (seed, step, worker).
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_parameter_registration_hook
from torch.overrides import TorchFunctionMode

from harken.errors import UserError
from harken.files import atomic_path

CHECKPOINT, MODEL = "checkpoint.safetensors", "model.safetensors"
PREVIOUS = "checkpoint.previous.safetensors"
DIGEST = "sha256"  # key of the metadata
RECIPE = "recipe.toml"
DRAWN = {  # functions of torch.Tensor and torch.nn.init that draw the first weights of networks
    *("uniform_", "normal_", "trunc_normal_", "xavier_uniform_", "xavier_normal_", "kaiming_uniform_"),
    *("kaiming_normal_", "orthogonal_"),
}
SPARE = 1_000_000  # parameters that a network may have beyond what its weights allow: those of small models
# What torch and Python raise on sizes that no network can have. Other errors, such as an AttributeError, are defects of
# harken and stay what they are: they must not be taken for a damaged folder.
FAILURES = (ArithmeticError, MemoryError, RuntimeError, ValueError)


@dataclass
class Progress:
    """The state of a run between two updates."""

    step: int = 0  # updates made
    epoch: int = 0
    position: int = 0  # batches of this epoch already used
    tokens: int = 0  # loss terms seen: target tokens, labels, frames ...
    seconds: float = 0.0  # spent in the loop, validation included
    best: float | None = None
    best_step: int = 0
    stale: int = 0  # validations since the best
    waited: int = 0  # validations the plateau schedule has waited
    reduced: float = 1.0  # factor of the plateau schedule
    window_loss: float = 0.0  # of the steps since the last line of metrics.jsonl
    window_tokens: int = 0
    window_seconds: float = 0.0
    validations: int = 0
    validated_step: int = 0  # of the last validation
    validation_seconds: float = 0.0
    loss_mean: float = 0.0  # running mean of the loss a token, its mean deviation and how many updates they are of
    loss_deviation: float = 0.0
    loss_counted: int = 0
    dead: dict[str, int] = field(default_factory=dict)  # parameter -> validations in a row without a gradient
    finished: bool = False
    stopped_by: str = ""  # the limit that ended a finished run: "max_steps", "max_epochs", "max_minutes", "patience"

    def branch(self) -> Progress:
        """Where another run starts that goes on from here: the place in the data and the clock, no scores."""
        return Progress(self.step, self.epoch, self.position, self.tokens, self.seconds)


class Checkpoint(NamedTuple):
    """What `load_checkpoint` found."""

    tensors: dict[str, Tensor]
    progress: Progress
    settings: dict[str, Any]
    warning: str | None  # why this is not the last checkpoint written


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
        raise UserError(f"{path} is damaged ({_brief(problem)})") from problem
    except RuntimeError as problem:  # an allocation that the machine refuses
        raise UserError(f"{path} cannot be read ({_brief(problem)})") from problem
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


def save_checkpoint(folder: Path, tensors: dict[str, Tensor], progress: Progress, settings: dict[str, Any]) -> None:
    """Write a checkpoint; the one before it stays as `checkpoint.previous.safetensors`.

    Args:
        settings: what must not change for the run to be resumed: seed, batch size, precision ...
    """
    path, previous = folder / CHECKPOINT, folder / PREVIOUS
    state = json.dumps({"progress": asdict(progress), "settings": settings})
    if path.is_file():
        link = folder / f".{PREVIOUS}.{os.getpid():08x}.tmp"
        with suppress(OSError):  # a file system without hard links keeps one checkpoint
            link.unlink(missing_ok=True)
            os.link(path, link)
            os.replace(link, previous)
    save_tensors(path, tensors, {"state": state})
    from harken.training.shards import remove_shards

    remove_shards(folder)


def load_checkpoint(folder: Path) -> Checkpoint | None:
    """The newest intact checkpoint; None where there is none.

    Raises:
        UserError: there are checkpoints, but none of them is intact.
    """
    from harken.training.shards import INDEX, PREVIOUS_INDEX, load_shards

    problems: list[str] = []
    for path in (folder / CHECKPOINT, folder / PREVIOUS, folder / INDEX, folder / PREVIOUS_INDEX):
        if not path.exists():
            continue
        try:
            if path.suffix == ".json":
                return load_shards(path)._replace(warning=problems[0] if problems else None)
            tensors, metadata = load_tensors(path)
            state = json.loads(metadata["state"])
            progress = Progress(**state["progress"])
            if not isinstance(progress.step, int) or not isinstance(state["settings"], dict):
                raise TypeError("state")
            return Checkpoint(tensors, progress, state["settings"], problems[0] if problems else None)
        except UserError as problem:
            problems.append(str(problem))
        except (KeyError, TypeError, ValueError, RecursionError):
            problems.append(f"{path} is no checkpoint of this version of harken")
    if problems:
        raise UserError(f"{problems[0]}; train into a new folder, or start this run over with restart=True")
    return None


def has_checkpoint(folder: Path) -> bool:
    """Whether a run can be resumed from here."""
    return any((folder / name).is_file() for name in (CHECKPOINT, PREVIOUS, "checkpoint.index.json"))


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
    found = {}
    for key, value in tensors.items():
        parts = key.split(".")
        for start in range(min(3, len(parts))):  # "model.NAME", "average.NAME", "optimizer.exp_avg.NAME" or a bare NAME
            name = ".".join(parts[start:])
            if name in renamed:
                key = ".".join([*parts[:start], renamed[name]])
                break
        found[key] = value
    return found


@contextmanager
def fitting_weights(folder: Path) -> Iterator[None]:
    """Open a model folder inside the block: what does not fit its weights is refused, before it exhausts the machine.

    A network that registers more parameters than the folder's weights have bytes (four times their number) belongs to
    another recipe. It is noticed at the first parameter too many, which is allocated but not yet filled.

    Raises:
        UserError: the network is too large, or cannot be built from the recipe and the other files of the folder.
    """
    allowed = SPARE + sum(path.stat().st_size for path in folder.rglob("*.safetensors") if path.is_file())
    count = 0

    def register(module: nn.Module, name: str, parameter: Tensor | None) -> None:
        nonlocal count
        count += 0 if parameter is None else parameter.numel()
        if count > allowed:
            raise UserError(
                f"{folder / RECIPE} describes a network of more than {count:,} parameters, but {MODEL} beside it is "
                "too small to hold them; was one replaced? Copy the folder again"
            )

    hook = register_module_parameter_registration_hook(register)
    try:
        yield
    except UserError:
        raise
    except FAILURES as problem:
        if isinstance(problem, torch.OutOfMemoryError):
            raise
        raise UserError(
            f"{folder} does not hold together: no model can be made of {RECIPE} and the files beside it "
            f"({type(problem).__name__}: {_brief(problem)}); copy the folder again or train anew"
        ) from problem
    finally:
        hook.remove()


class _NothingDrawn(TorchFunctionMode):
    """Zeros in the place of random numbers."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__name__", "") in DRAWN:
            with torch.no_grad():
                return (args[0] if args else kwargs["tensor"]).zero_()
        return func(*args, **kwargs)


def without_initialization() -> TorchFunctionMode:
    """A context in which networks are built without random weights, as those of a file will take their place.

    >>> with without_initialization():
    ...     layer = nn.Linear(2, 2)
    >>> layer.weight.abs().sum().item()
    0.0
    """
    return _NothingDrawn()


def load_weights(model: nn.Module, path: Path) -> None:
    """Copy the tensors of a safetensors file into a model, all of them or none.

    Raises:
        UserError: the file is damaged, belongs to another recipe, or holds values that are not finite.
    """
    try:
        tensors, metadata = load_tensors(path)
    except UserError as problem:
        raise UserError(f"{problem}; train the model again or copy it anew") from problem
    tensors, state = with_current_names(model, tensors), state_of(model)
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
    return not values.numel() or all(bool(torch.isfinite(one)) for one in torch.aminmax(values))


def _brief(problem: BaseException) -> str:
    """An error of a library as one short line."""
    return " ".join(str(problem).split())[:200]
