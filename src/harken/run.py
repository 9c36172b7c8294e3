"""One whole run: corpus, tokenizers, model, training, card; from a recipe to a model folder."""

from __future__ import annotations

from pathlib import Path

import torch

from harken.card import write_aside, write_card
from harken.data.pairs import Corpus
from harken.data.parallel import read_corpus
from harken.data.tokenizers import (
    JOINT,
    SOURCE,
    TARGET,
    Tokenizer,
    load_tokenizers,
    save_tokenizers,
    train_tokenizers,
)
from harken.errors import UserError
from harken.models.build import build_model
from harken.recipe import Recipe, load_recipe
from harken.tasks.translate import TranslationTask
from harken.training.checkpoints import CHECKPOINT
from harken.training.display import choose_display
from harken.training.loop import MODEL, Trainer
from harken.training.machine import choose_device, choose_precision, choose_workers
from harken.translator import Translator

RECIPE = "recipe.toml"
BUDGET = ("max_steps", "max_epochs", "max_minutes", "patience")
CHOSEN = ("device", "precision", "workers", "threads")  # where the recipe leaves them open, harken decides


def run_recipe(recipe: Recipe, folder: Path, resume: bool, progress: bool) -> Translator:
    """Train into `folder` and give back the best model.

    Raises:
        UserError: bad data, or a folder that holds another run.
    """
    going_on = resume and (folder / RECIPE).is_file()
    if going_on:
        recipe = same_run(recipe, folder)
    elif not (free(folder) or (resume and barely_begun(folder))):
        raise UserError(f"{folder} is not empty; train into a new folder, or go on with the run in it (--resume)")
    else:
        recipe = resolve(recipe)
    display = choose_display(progress)
    torch.set_num_threads(recipe.train.threads or 1)
    corpus = read_corpus(recipe.data)
    folder.mkdir(parents=True, exist_ok=True)
    source, target = tokenizers_of(recipe, corpus, folder, going_on)
    write_aside(folder / RECIPE, recipe.to_toml())
    torch.manual_seed(recipe.train.seed)
    model = build_model(recipe.model, source.size, target.size)
    if progress:
        print(describe(recipe, corpus, model, source, target), flush=True)
    trainer = Trainer(TranslationTask(recipe, corpus, model, source, target), recipe.train, folder, display)
    state = trainer.run(resume=going_on)
    write_card(folder, recipe, corpus, model, state, source.size, target.size)
    return Translator.load(folder, device=recipe.train.device)


def resolve(recipe: Recipe) -> Recipe:
    """The recipe with everything decided that was left to harken, as it is written into the model folder."""
    train = recipe.train
    device = choose_device(train.device)
    decided = {
        "device": device,
        "precision": choose_precision(train.precision, device),
        "workers": train.workers or (choose_workers() if device == "cpu" else 1),
        "threads": train.threads or 1,
    }
    return recipe.model_copy(update={"train": train.model_copy(update=decided)})


def same_run(recipe: Recipe, folder: Path) -> Recipe:
    """The recipe a run was started with; only its budget may be changed on resuming."""
    started = load_recipe(folder / RECIPE)
    for section in ("task", "data", "tokenizer", "model", "search"):
        if getattr(recipe, section) != getattr(started, section):
            raise UserError(
                f"{folder} was started with another [{section}] than this recipe has; resume with the recipe and --set "
                f"values it was started with, or train into a new folder"
            )
    for key, old in started.train:
        new = getattr(recipe.train, key)
        left_open = key in CHOSEN and new in ("auto", None)
        if key not in BUDGET and new != old and not left_open:
            raise UserError(
                f"{folder} was started with train.{key} = {old}, not {new}; resume with the old value, "
                f"or train into a new folder"
            )
    budget = {key: getattr(recipe.train, key) for key in BUDGET}
    return started.model_copy(update={"train": started.train.model_copy(update=budget)})


def free(folder: Path) -> bool:
    """Whether nothing is there that training could write over."""
    return not (folder.is_dir() and any(folder.iterdir()))


def barely_begun(folder: Path) -> bool:
    """Whether a run was killed here before its recipe was written: then there are tokenizers at the most."""
    names = {path.name.removesuffix(".part") for path in folder.iterdir()}
    return names <= {RECIPE, *(f"{name}{ending}" for name in (SOURCE, TARGET, JOINT) for ending in (".model", ".json"))}


def tokenizers_of(recipe: Recipe, corpus: Corpus, folder: Path, going_on: bool) -> tuple[Tokenizer, Tokenizer]:
    """Those of the folder where a run goes on, else trained on the training text."""
    if going_on:
        return load_tokenizers(folder)
    source, target = train_tokenizers(
        recipe.tokenizer,
        [pair.source for pair in corpus.train],
        [pair.target for pair in corpus.train],
        recipe.train.seed,
    )
    save_tokenizers(folder, source, target)
    return source, target


def describe(recipe: Recipe, corpus: Corpus, model: torch.nn.Module, source: Tokenizer, target: Tokenizer) -> str:
    """A few lines on what is about to be trained, skipped lines included."""
    parameters = sum(parameter.numel() for parameter in model.parameters())
    train = recipe.train
    pieces = f"{source.size:,}" if source is target else f"{source.size:,} and {target.size:,}"
    lines = [
        f"{corpus.name}: {len(corpus.train):,} training pairs, {len(corpus.valid):,} for validation, "
        f"{corpus.source_language} -> {corpus.target_language}",
        f"{recipe.model.title}: {parameters:,} parameters, {pieces} {recipe.tokenizer.kind} pieces",
        f"{train.device}, {train.precision}, {train.workers} process{'es' if train.workers != 1 else ''} x "
        f"{train.threads} thread{'s' if train.threads != 1 else ''}",
    ]
    lines += [f"skipped {count:,} lines: {reason}" for reason, count in sorted(corpus.skipped.items()) if count]
    return "\n".join(lines)


__all__ = ["CHECKPOINT", "MODEL", "RECIPE", "run_recipe"]
