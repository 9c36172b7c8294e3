"""Every key of every job's recipe with values of the wrong type and of extreme size, from the pydantic schema."""

from __future__ import annotations

import copy
import tomllib
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel

from harken.errors import UserError
from harken.recipe import load_recipe, recipe_text
from harken.recipe.errors import config_classes
from harken.registry import recipe_class

RECIPES = (
    *("phrasebook-transformer", "phrasebook-attention", "phrasebook-convolutional", "opinions-classify"),
    *("phrasebook-tag", "phrasebook-language", "phrasebook-masked", "phrasebook-elmo", "seasons-forecast"),
    *("tones-transcribe", "stories-answer", "scenes-caption", "penfont-handwriting"),
)
VALUES: tuple[Any, ...] = (
    *(10**23, -(10**23), 10**13, -1, 0, 1.5, 1e300, float("nan"), float("inf"), True, "", "no such word"),
    *("a" * 10_000, "\x1b[31m", "~nosuchuser/x", [], [1, "a"], [[[[]]]], {}, {"a": {"b": 1}}),
)


def keys(table: type[BaseModel], prefix: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every key below a table, tables included."""
    for name, field in table.model_fields.items():
        yield (*prefix, name)
        for inner in config_classes(field.annotation):
            yield from keys(inner, (*prefix, name))


@pytest.mark.parametrize("share", [pytest.param(10, id="one in 10"), pytest.param(1, id="all", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", RECIPES)
def test_wrong_values_give_one_sentence_or_a_recipe(name: str, tmp_path: Any, share: int) -> None:
    values = tomllib.loads(recipe_text(name))
    tried = 0
    for number, key in enumerate(dict.fromkeys(keys(recipe_class(values.get("task", "translate"))))):
        for value in VALUES[number % share :: share]:
            changed = copy.deepcopy(values)
            table = changed
            for part in key[:-1]:
                table = table.setdefault(part, {})
                if not isinstance(table, dict):
                    break
            else:
                table[key[-1]] = value
                tried += 1
                check(changed, f"{'.'.join(key)} = {str(value)[:30]!r}", tmp_path)
    assert tried > 300 // share


def check(values: dict[str, Any], what: str, folder: Any) -> None:
    import tomli_w

    path = folder / "recipe.toml"
    path.write_text(tomli_w.dumps(values), encoding="utf-8")
    try:
        load_recipe(path)
    except UserError as error:
        assert "\n" not in str(error) and len(str(error)) < 1500, (what, str(error))
    except Exception as error:
        raise AssertionError(f"{what}: {type(error).__name__}: {error}") from error


def test_a_length_penalty_that_overflows_is_refused() -> None:
    with pytest.raises(UserError, match=r"search.length_penalty is 1000000 .* must be at most 100"):
        load_recipe("phrasebook-transformer", ["search.length_penalty=1000000"])
