"""Recipe keys as pages, from the pydantic classes that validate recipes: a row for each field."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import product
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from harken.data.text.config import DataConfig, SplitFiles, TokenizerConfig
from harken.models.config import ConvolutionalConfig, DecoderOnlyConfig, OwnConfig, RecurrentConfig, TransformerConfig
from harken.models.config_embeddings import SidedEmbeddingsConfig
from harken.recipe import describe, recipe_names
from harken.registry import JOBS, recipe_class
from harken.search.config import TranslationSearchConfig
from harken.tasks.translate.recipe import AdaptConfig, TranslateRecipe
from harken.training.config import TrainConfig

WORDS = {
    int: "integer",
    float: "number",
    str: "string",
    bool: "true or false",
    SplitFiles: "table of files",
}
BOUNDS = {"gt": "above", "ge": "at least", "lt": "below", "le": "at most"}

OPENING = """# Recipe reference

```sh
harken recipes                                          # list the recipes that ship
harken recipes phrasebook-transformer --out my.toml     # copy one, with comments
harken check my.toml                                    # validate it; estimate size, memory and time
harken train my.toml --out runs/mine --set train.max_minutes=30
```

A recipe is a TOML file that describes one training run. Only `task` (default: translate) and the data (`[data]`) are
required; every other table has defaults. A `[model]` table names its `architecture`, and a `[train]` table its budget
(`max_steps`, `max_epochs` or `max_minutes`; the first one ends the run); a recipe without `[train]` trains for ten
minutes. The keys of jobs other than translation are on [a separate page](recipes-jobs.md).

- `--set section.key=value` overrides one key. The value is parsed as TOML, or taken as plain text.
- `train.max_minutes` is the time of the whole command, from its start to the finished folder: loading modules, reading
  the data, planning, training, validation, the last checkpoint and the card. Training ends early enough for what comes
  after it, which is foreseen from a share of a validation and from the validations of the run. At least a tenth of the
  budget is trained, so a budget that preparing uses up is exceeded, and a note says how many minutes are the least. On
  two idle cores preparing 30,000 sentence pairs takes 24 seconds; on a machine that is busy with six other processes,
  two minutes. Once a fifth of the budget is spent, the smallest network is taken without measuring larger ones.
- An unknown key is an error that suggests the closest known one.
- Relative paths are relative to the recipe file; those of `--set` and of recipes that ship to the working directory.
- The tables `[data]` of all jobs use the same names: `train`, `valid`, `test`, `valid_size`, `test_size`, `dir`,
  `format`, and `NAME_column` for columns. Names of version 0.1 are accepted with a note.
- `"none"` unsets an optional key: `clip_norm = "none"`.
- A recipe is not changed after it was read. What it leaves open is planned before the first update: device, precision
  and processes of the machine (in a container, of its CPU quota and memory limit), the size of the network by the
  minutes it may train, and `[train]` fitted to the budget from a few measured updates. `harken check` prints the plan,
  each value with its reason; the model folder contains the complete recipe.
"""

MIXED = """A `[model.decoder]` table replaces the decoder by one of another architecture. If widths differ, a linear
map joins the two:

```toml
[model]
architecture = "transformer"
tied = "output"

[model.decoder]
architecture = "recurrent"
cell = "gru"
```"""

DEEP = """The deep stack of GNMT (Wu et al., 2016): `layers = 8`, `bidirectional = "first"`, `connections = "residual"`,
`connections_from = 3`, `attend = "before"`, `look_from = "bottom"`, `context_to = "all"`."""

SECTIONS: list[tuple[str, type[BaseModel], str]] = [
    ("[data]", DataConfig, "`source` needs `target`, unless one TSV or JSONL file holds both sides."),
    ("[data.valid] and [data.test]", SplitFiles, "Several test sets are named: `[data.test.news]`, `[data.test.web]`."),
    ("[tokenizer]", TokenizerConfig, ""),
    ("[adapt]", AdaptConfig, "See [adopt and fine-tune](../how-to/adopt.md#fine-tune)."),
    ("[embeddings]", SidedEmbeddingsConfig, "`embeddings = PATH`, before the first section, is short for `words`."),
    ('[model] with architecture = "transformer"', TransformerConfig, MIXED),
    ('[model] with architecture = "recurrent"', RecurrentConfig, DEEP),
    ('[model] with architecture = "convolutional"', ConvolutionalConfig, ""),
    ('[model] with architecture = "decoder-only"', DecoderOnlyConfig, ""),
    ('[model] with architecture = "own"', OwnConfig, "See [extending](../how-to/extend.md)."),
    ("[train]", TrainConfig, ""),
    ("[search]", TranslationSearchConfig, ""),
]

OTHERS = """# Recipe reference: other jobs

```sh
harken recipes opinions-classify --out my.toml
harken check my.toml
```

General rules, `[train]` and the keys of translation are in [the recipe reference](recipes.md). This page lists the
other sections by job. A section that several jobs share is listed with the first of them.
"""


def reference() -> str:
    """The whole page."""
    shipped = table(("Recipe", "Description"), ((f"`{name}`", describe(name)) for name in recipe_names()))
    parts = [OPENING, "## Recipes that ship\n\n" + shipped, "## Top level\n\n" + top_level()]
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
    """The keys of a section and of its sub-tables, or a reference to where they were listed before."""
    if model is TrainConfig:
        return []
    architecture = model.model_fields.get("architecture")
    fixed = get_args(architecture.annotation) if architecture is not None else ()
    title = f'{title} with architecture = "{fixed[0]}"' if len(fixed) == 1 else title
    if model in shown:
        return [f"### {title}", "", f"The same keys as in {shown[model]}.", ""]
    shown[model] = f'task = "{job}"'
    lines = [f"### {title}", "", " ".join((model.__doc__ or "").split()), "", fields_table(model.model_fields)]
    for name, field in model.model_fields.items():
        for inner in classes(field.annotation):
            lines += described(f"{title.split()[0][:-1]}.{name}]", inner, job, shown)
    return lines


def classes(annotation: Any) -> list[type[BaseModel]]:
    """The config classes in an annotation."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [found for part in get_args(annotation) for found in classes(part)]


def top_level() -> str:
    """Keys before the first section."""
    return fields_table({name: field for name, field in TranslateRecipe.model_fields.items() if name == "task"})


def section(title: str, model: type[BaseModel], note: str) -> str:
    """A heading, the docstring of the class, and its keys."""
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
    return table(("Key", "Type", "Default", "Description"), rows)


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """A Markdown table."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"


def with_bounds(words: str, rules: Iterable[Any]) -> str:
    """A type with its bounds: "number at least 0 below 1"."""
    for rule in rules:
        nested = rule.metadata if isinstance(rule, FieldInfo) else [rule]
        for limit, (attribute, phrase) in product(nested, BOUNDS.items()):
            if getattr(limit, attribute, None) is not None:
                words += f" {phrase} {getattr(limit, attribute):g}"
    return words


def words_for(annotation: Any) -> str:
    """The name of a type in the reference."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return with_bounds(words_for(arguments[0]), arguments[1:])
    if origin is Literal:
        return ", ".join(f"`{json.dumps(value)}`" for value in arguments)
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(words_for(part) for part in arguments if part is not NoneType))
    if origin is list:
        return f"list of {plural(arguments[0])}"
    if origin is tuple:
        return f"list of {len(arguments)} {plural(arguments[0])}"
    if origin is dict and arguments[1] is Any:
        return "table"
    if origin is dict:
        return f"{words_for(arguments[1])}, or several by name"
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return WORDS.get(annotation, "table")
    return WORDS[annotation]


def plural(annotation: Any) -> str:
    """The name of a type in the plural: "integers at least 1"."""
    first, *rest = words_for(annotation).split(" ")
    return " ".join([f"{first}s", *rest])


def default(name: str, field: FieldInfo) -> str:
    """The default of a key."""
    value = field.get_default(call_default_factory=True)
    if value is PydanticUndefined or name == "architecture":
        return "required"
    if value is None:
        return "unset"
    return f"`{json.dumps(value)}`"


def phrase(field: FieldInfo) -> str:
    """A description as a table cell: no full stop, and no capital unless the first word is a name."""
    text = " ".join((field.description or "selects the network").split())
    text = text if text.endswith("...") else text.rstrip(".")
    first = text.split(":")[0].split(" ")[0]
    return text[:1].lower() + text[1:] if first[1:].islower() or len(first) == 1 else text
