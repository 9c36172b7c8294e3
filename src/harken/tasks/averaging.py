"""The mean of the weights of several models: theta = sum_m w_m theta_m / sum_m w_m.

The models must descend from one run, such as a run that was continued or fine-tuned in several ways; the weights of
runs with other initial values do not correspond to each other (an ensemble averages their outputs instead). Checkpoint
averaging: Junczys-Dowmunt et al. (2016); fine-tuned models: Wortsman et al. (2022).
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from harken.errors import UserError
from harken.files import atomic_folder, atomic_write, expand_user
from harken.recipe import model_recipe
from harken.tasks.data_record import DATA
from harken.tasks.registry import job_of
from harken.training.digests import DIGESTS
from harken.training.folder import CARD, MODEL, RECIPE
from harken.training.weights import read_weights, save_tensors

UNRELATED = 0.5  # mean cosine of weight matrices below which models hardly descend from one run


def average_models(folders: Sequence[Path | str], out: Path | str, weights: Sequence[float] | None = None) -> float:
    """Write the average of some model folders into a new or an empty one.

    Args:
        folders: two or more, with the same network and the same tokenizers or labels.
        weights: of each model. Default: equal.

    Returns:
        The mean cosine between the weight matrices of the first model and those of the others: near 1 where they
        descend from one run, near 0 where they were trained independently.

    Raises:
        UserError: the models do not fit together, or a folder cannot be read or written.
    """
    paths = [expand_user(folder) for folder in folders]
    if len(paths) < 2:
        raise UserError("an average needs at least two models; name more folders")
    weights = [1.0] * len(paths) if weights is None else list(weights)
    if len(weights) != len(paths) or min(weights) < 0 or sum(weights) <= 0:
        raise UserError(
            f"the weights are {weights}; give one number, not negative, for each of the {len(paths)} models"
        )
    recipes = [model_recipe(path) for path in paths]
    names = job_of(recipes[0].task).artifact_names()
    for path, recipe in zip(paths[1:], recipes[1:], strict=True):
        _require_same(paths[0], recipes[0], path, recipe, names)
    total: dict[str, Tensor] = {}
    first: dict[str, Tensor] = {}
    cosines: list[float] = []
    for path, weight in zip(paths, weights, strict=True):
        tensors = read_weights(path / MODEL)[0]
        if first and {name: tensor.shape for name, tensor in tensors.items()} != {
            name: tensor.shape for name, tensor in first.items()
        }:
            raise UserError(f"{path} has other weights than {paths[0]}; average models of one network")
        for name, tensor in tensors.items():
            if first and tensor.dim() > 1 and tensor.is_floating_point():
                cosines.append(
                    float(F.cosine_similarity(tensor.flatten().float(), first[name].flatten().float(), dim=0))
                )
            if tensor.is_floating_point():
                share = tensor.double() * (weight / sum(weights))
                total[name] = share if name not in total else total[name] + share
            else:
                total.setdefault(name, tensor)
        first = first or tensors
    with atomic_folder(out) as temporary:
        save_tensors(temporary / MODEL, {name: tensor.to(first[name].dtype) for name, tensor in total.items()})
        copy_files(paths[0], temporary, names)
        rows = "".join(f"| {path.name} | {weight:g} |\n" for path, weight in zip(paths, weights, strict=True))
        title = f"# Average of {len(paths)} models\n\n| Model | Weight |\n| --- | --- |\n"
        atomic_write(temporary / CARD, f"{title}{rows}\nScores on test sets: `harken evaluate`.\n")
    return float(torch.tensor(cosines).mean()) if cosines else 1.0


def copy_files(folder: Path, target: Path, names: Iterable[str]) -> None:
    """Copy what a model folder has beside its weights and card: the recipe, digests, and the artifacts `names`."""
    for name in (RECIPE, DATA, DIGESTS, *sorted(names)):
        if (folder / name).is_dir():
            shutil.copytree(folder / name, target / name)
        elif (folder / name).is_file():
            shutil.copy(folder / name, target / name)


def _require_same(mine: Path, recipe: Any, theirs: Path, other: Any, names: frozenset[str]) -> None:
    if other.task != recipe.task:
        raise UserError(
            f"{theirs} is a model of the task {other.task!r}, and {mine} of {recipe.task!r}; average equal ones"
        )
    if other.model.model_dump() != recipe.model.model_dump():
        raise UserError(f"{theirs} has another [model] table than {mine}; average models of one network")
    for name in sorted(names):
        contents = [(folder / name).read_bytes() if (folder / name).is_file() else None for folder in (mine, theirs)]
        if contents[0] != contents[1]:
            raise UserError(
                f"{theirs / name} differs from that of {mine}; average models with equal vocabularies and labels"
            )
