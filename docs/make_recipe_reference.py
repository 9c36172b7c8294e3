"""Writes docs/recipes.md and docs/recipes-jobs.md from the recipes' own classes: they cannot fall behind the code.

    python docs/make_recipe_reference.py

Every row is a pydantic field: its name, what it takes, its default and its description. `tests/test_docs.py` fails
where the file on disk is not what this script would write.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import product
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from harken.data.text.config import DataConfig, SplitFiles, TokenizerConfig
from harken.models.config import ConvolutionalConfig, DecoderOnlyConfig, RecurrentConfig, TransformerConfig
from harken.models.config_embeddings import SidedEmbeddingsConfig
from harken.recipe import describe, recipe_names
from harken.search.config import SearchConfig
from harken.tasks.registry import JOBS, recipe_class
from harken.tasks.translate.recipe import TranslateRecipe
from harken.training.config import TrainConfig

PAGE, OTHER_PAGE = (Path(__file__).parent / name for name in ("recipes.md", "recipes-jobs.md"))

WORDS = {
    int: "whole number",
    float: "number",
    str: "text",
    bool: "true or false",
    SplitFiles: "table of files",
}
BOUNDS = {"gt": "above", "ge": "at least", "lt": "below", "le": "at most"}

OPENING = """# Recipes: every key

<!-- Written by docs/make_recipe_reference.py from the classes that check recipes. Change those, then run it again. -->

A recipe is a TOML file that says everything about one training run. All keys have defaults but three: where the data
is (`[data]`), which network (`model.architecture`) and how long to train (one of `train.max_steps`, `train.max_epochs`,
`train.max_minutes`; the first reached ends the run).

```sh
harken recipes                                          # those that ship
harken recipes phrasebook-transformer --out my.toml     # a copy to change, with a comment on every line
harken check my.toml                                    # keys, files, size, memory and time, without training
harken train my.toml --out runs/mine --set train.max_minutes=30
```

- `--set section.key=value` changes one key; the value is read as TOML, or else taken as plain text.
- An unknown key is an error that names the nearest known one.
- Relative paths are relative to the folder that harken is run in.
- Where a key may be left without a value, `"none"` says so: `clip_norm = "none"`.
- The model folder holds the recipe with every key filled in, what harken chose for this machine included.
"""

MIXED = """Any encoder goes with any decoder. A table of its own, with the keys below that concern a decoder, puts
another one on the encoder that `[model]` describes; where widths differ, a linear map joins them:

```toml
[model]
architecture = "transformer"
tied = "output"

[model.decoder]
architecture = "recurrent"
cell = "gru"
```"""

DEEP = """A deep stack as in Wu et al. (2016): `layers = 8`, `bidirectional = "first"`, `connections = "residual"`,
`connections_from = 3`, `attend = "before"`, `look_from = "bottom"`, `context_to = "all"`."""

SECTIONS: list[tuple[str, type[BaseModel], str]] = [
    ("[data]", DataConfig, "`source` comes with `target`, unless one file (TSV, JSONL) holds both sides."),
    ("[data.valid] and [data.test]", SplitFiles, "Several tests have names: `[data.test.news]`, `[data.test.web]`."),
    ("[tokenizer]", TokenizerConfig, ""),
    ("[embeddings]", SidedEmbeddingsConfig, "`embeddings = PLACE`, before the first section, is short for `words`."),
    ('[model] with architecture = "transformer"', TransformerConfig, MIXED),
    ('[model] with architecture = "recurrent"', RecurrentConfig, DEEP),
    ('[model] with architecture = "convolutional"', ConvolutionalConfig, ""),
    ('[model] with architecture = "decoder-only"', DecoderOnlyConfig, ""),
    ("[train]", TrainConfig, ""),
    ("[search]", SearchConfig, ""),
]

OTHERS = """# Recipes of the other jobs: every key

<!-- Written by docs/make_recipe_reference.py from the classes that check recipes. Change those, then run it again. -->

What all recipes have in common, and all that translation has, is in [recipes](recipes.md); `[train]` is the same for
every job. Here are the other sections, job by job; a table that several jobs share stands with the first of them.
"""


def reference() -> str:
    """The whole page."""
    shipped = table(("recipe", "what it trains"), ((f"`{name}`", describe(name)) for name in recipe_names()))
    parts = [OPENING, "## Those that ship\n\n" + shipped, "## Outside any section\n\n" + top_level()]
    parts += [section(*entry) for entry in SECTIONS]
    return "\n".join(parts)


def others() -> str:
    """The page of all jobs but translation."""
    parts, shown = [OTHERS], {TrainConfig: "recipes.md#train"}
    for job in JOBS:
        if job == "translate":
            continue
        lines = [f'## task = "{job}"', "", " ".join((recipe_class(job).__doc__ or "").split()), ""]
        for name, field in recipe_class(job).model_fields.items():
            for model in classes(field.annotation):
                lines += described(f"[{name}]", model, job, shown)
        parts.append("\n".join(lines))
    return "\n".join(parts)


def described(title: str, model: type[BaseModel], job: str, shown: dict[type[BaseModel], str]) -> list[str]:
    """A table of keys under its title, and those of the tables inside it; or where it was shown before."""
    if model is TrainConfig:
        return []
    architecture = model.model_fields.get("architecture")
    fixed = get_args(architecture.annotation) if architecture is not None else ()
    title = f'{title} with architecture = "{fixed[0]}"' if len(fixed) == 1 else title
    if model in shown:
        return [f"### {title}", "", f"As {shown[model]} has it.", ""]
    shown[model] = f'task = "{job}"'
    lines = [f"### {title}", "", " ".join((model.__doc__ or "").split()), "", fields_table(model.model_fields)]
    for name, field in model.model_fields.items():
        for inner in classes(field.annotation):
            lines += described(f"{title.split()[0][:-1]}.{name}]", inner, job, shown)
    return lines


def classes(annotation: Any) -> list[type[BaseModel]]:
    """The tables that an annotation allows."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [found for part in get_args(annotation) for found in classes(part)]


def top_level() -> str:
    """Keys that stand before the first section."""
    return fields_table({name: field for name, field in TranslateRecipe.model_fields.items() if name == "task"})


def section(title: str, model: type[BaseModel], note: str) -> str:
    """A heading, what the class says of itself, and its keys."""
    lines = [f"## {title}", "", " ".join((model.__doc__ or "").split()), ""]
    if note:
        lines += [note, ""]
    return "\n".join(lines) + "\n" + fields_table(model.model_fields)


def fields_table(fields: dict[str, FieldInfo]) -> str:
    """One row for each key."""
    rows = (
        (f"`{name}`", with_bounds(words_for(field.annotation), field.metadata), default(name, field), phrase(field))
        for name, field in fields.items()
    )
    return table(("key", "takes", "default", "what it is"), rows)


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """A Markdown table."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"


def with_bounds(words: str, rules: Iterable[Any]) -> str:
    """A kind of value and the limits it is checked against: "number at least 0 below 1"."""
    for rule in rules:
        nested = rule.metadata if isinstance(rule, FieldInfo) else [rule]
        for limit, (attribute, phrase) in product(nested, BOUNDS.items()):
            if getattr(limit, attribute, None) is not None:
                words += f" {phrase} {getattr(limit, attribute):g}"
    return words


def words_for(annotation: Any) -> str:
    """A type as a reader of recipes would name it."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return with_bounds(words_for(arguments[0]), arguments[1:])
    if origin is Literal:
        return ", ".join(f"`{json.dumps(value)}`" for value in arguments)
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(words_for(part) for part in arguments if part is not NoneType))
    if origin is list:
        return "list of texts" if arguments[0] is str else f"list of {words_for(arguments[0])}s"
    if origin is tuple:
        return f"list of {len(arguments)} {words_for(arguments[0])}s"
    if origin is dict:
        return f"{words_for(arguments[1])}, or several by name"
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return WORDS.get(annotation, "table")
    return WORDS[annotation]


def default(name: str, field: FieldInfo) -> str:
    """The value a key has where it is left out."""
    value = field.get_default(call_default_factory=True)
    if value is PydanticUndefined or name == "architecture":
        return "must be given"
    if value is None:
        return "not set"
    return f"`{json.dumps(value)}`"


def phrase(field: FieldInfo) -> str:
    """A description as a table's cell: no full stop, no capital unless the first word is a name."""
    text = " ".join((field.description or "the network that this table describes").split())
    text = text if text.endswith("...") else text.rstrip(".")
    first = text.split(":")[0].split(" ")[0]
    return text[:1].lower() + text[1:] if first[1:].islower() or len(first) == 1 else text


if __name__ == "__main__":
    for page, text in ((PAGE, reference()), (OTHER_PAGE, others())):
        page.write_text(text, encoding="utf-8")
        print(f"wrote {page}")
