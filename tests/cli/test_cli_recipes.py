"""`harken recipes` and `harken check`."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harken.cli.common import format_bytes, format_seconds
from harken.recipe import load_recipe, recipe_names, recipe_text


def test_the_list_is_plain_lines_without_a_terminal(run: Callable[..., Any]) -> None:
    lines = run("recipes").output.splitlines()
    assert [line.split("\t")[0] for line in lines] == recipe_names()


def test_one_recipe_is_printed_as_it_ships(run: Callable[..., Any]) -> None:
    assert run("recipes", "phrasebook-rnn").output == recipe_text("phrasebook-rnn")


def test_a_recipe_is_written_to_start_from_but_never_over_a_file(run: Callable[..., Any], tmp_path: Path) -> None:
    out = tmp_path / "my.toml"
    assert run("recipes", "phrasebook-rnn", "--out", out).exit_code == 0
    assert load_recipe(out) == load_recipe("phrasebook-rnn")
    again = run("recipes", "phrasebook-rnn", "--out", out)
    assert again.exit_code == 2
    assert "is there already" in again.stderr
    assert run("recipes", "phrasebook-rnn", "--out", tmp_path / "no" / "my.toml").exit_code == 2


def test_an_unknown_recipe_is_refused_with_the_nearest(run: Callable[..., Any]) -> None:
    done = run("recipes", "phrasebok-rnn")
    assert done.exit_code == 2
    assert "did you mean phrasebook-rnn?" in done.stderr


def test_check_reports_sizes(run: Callable[..., Any]) -> None:
    small = ("--set", "data.size=200", "--set", "train.max_steps=2")
    plain = run("check", "phrasebook-transformer", *small, "--no-measure")
    found = json.loads(run("check", "phrasebook-transformer", *small, "--json").stdout)
    assert plain.exit_code == 0
    assert f"parameters\t{found['parameters']:,} (" in plain.output
    assert sum(found["parts"].values()) == found["parameters"]
    assert found["memory_bytes"] > 16 * found["parameters"]


def test_check_follows_overrides(run: Callable[..., Any]) -> None:
    small = ("--set", "data.size=200", "--no-measure", "--json")
    narrow, wide = (
        json.loads(run("check", "phrasebook-transformer", "--set", f"model.width={width}", *small).stdout)
        for width in (64, 128)
    )
    assert narrow["parameters"] < wide["parameters"]


def test_amounts_in_words() -> None:
    assert [format_bytes(count) for count in (12, 1234567, 5e12)] == ["12 bytes", "1.2 MB", "5,000.0 GB"]
    assert [format_seconds(seconds) for seconds in (3, 120, 7200, 864000)] == [
        "3 seconds",
        "2 minutes",
        "2 hours",
        "10 days",
    ]


def test_json_lists_every_recipe_and_prints_one(run: Callable[..., Any]) -> None:
    listed = json.loads(run("recipes", "--json").stdout)
    assert {"name", "trains"} == set(listed[0]) and "phrasebook-ladder" in [entry["name"] for entry in listed]
    assert json.loads(run("recipes", "phrasebook-ladder", "--json").stdout)["task"] == "translate"
