"""Recipes: shipped ones load, errors are one sentence, and a written recipe reads back equal."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harken.errors import UserError
from harken.recipe import Recipe, describe, load_recipe, recipe_names, recipe_text
from harken.registry import JOBS
from harken.tasks.translate.recipe import TranslateRecipe

MULTI30K = ["data.dir=../x", "data.pair=en-de"]
SMALL = """
[data]
corpus = "phrasebook"
[model]
architecture = "transformer"
[train]
max_steps = 10
"""


def error_of(name_or_path: str | Path, *overrides: str) -> str:
    with pytest.raises(UserError) as caught:
        load_recipe(name_or_path, overrides)
    return str(caught.value)


def needed(name: str) -> list[str]:
    """The overrides that a recipe for external data requires."""
    try:
        load_recipe(name)
    except UserError as problem:
        required = re.search(r"--set (data\.\w+)=", str(problem))
        assert required is not None
        return MULTI30K if "data.pair" in str(problem) else [f"{required[1]}=../x"]
    return []


@pytest.fixture
def recipe_file(tmp_path: Path) -> Path:
    path = tmp_path / "my.toml"
    path.write_text(SMALL, encoding="utf-8")
    return path


def test_the_recipes_that_ship_load_and_have_a_description() -> None:
    assert {"phrasebook-transformer", "multi30k-attention", "opinions-classify", "ptb-lstm"} <= set(recipe_names())
    for name in recipe_names():
        recipe = load_recipe(name, needed(name))
        assert recipe.source == name
        kind = name.rpartition("-")[2]
        if recipe.task == "translate":
            known = dict.fromkeys(("transformer", "ladder", "student", "table2", "tiny"), "transformer")
            known["convolutional"] = "convolutional"
            assert recipe.model.architecture == known.get(kind, "recurrent")
        elif recipe.task != "language":
            assert kind == recipe.task
        assert recipe_text(name).startswith(f"# {describe(name)}\n")
        assert 20 < len(describe(name)) < 120
    assert load_recipe("phrasebook-rnn").model.attention == "none"
    assert load_recipe("phrasebook-attention").model.attention == "additive"


def test_the_rnn_recipe_differs_from_the_attention_recipe_only_in_attention() -> None:
    plain, attending = (load_recipe(f"phrasebook-{name}").model_dump() for name in ("rnn", "attention"))
    assert plain["model"].pop("attention") != attending["model"].pop("attention")
    assert plain == attending


@pytest.mark.parametrize("missing", [[], ["data.dir=x"], ["data.pair=en-de"]])
def test_multi30k_says_which_keys_to_add(missing: list[str]) -> None:
    message = error_of("multi30k-attention", *missing)
    assert ("--set data.dir=DIR" in message) == ("data.dir=x" not in missing)
    assert ("--set data.pair=en-de" in message) == ("data.pair=en-de" not in missing)


def test_an_override_is_a_toml_value_or_else_a_plain_string() -> None:
    recipe = load_recipe(
        "phrasebook-transformer",
        [
            "data.name=../x y",
            "train.betas=[0.8, 0.9]",
            "train.clip_norm = 2.5",
            'tokenizer.kind="bpe"',
            "model.alignment_heads=[0,1]",
            "train.compile=true",
            "data.test={new = {source = 'a', target = 'b'}}",
            "train.max_minutes=none",
            "train.max_steps=7",
        ],
    )
    assert recipe.data.name == "../x y"
    assert recipe.train.betas == (0.8, 0.9)
    assert recipe.train.clip_norm == 2.5
    assert recipe.tokenizer.kind == "bpe"
    assert recipe.model.alignment_heads == [0, 1]
    assert recipe.train.compile is True
    assert recipe.data.test["new"].target == str(Path.cwd() / "b")
    assert (recipe.train.max_minutes, recipe.train.max_steps) == (None, 7)


def test_the_last_override_wins_and_cannot_smuggle_in_a_second_key() -> None:
    recipe = load_recipe("phrasebook-rnn", ["data.name=a", "data.name=1\nseed = 5"])
    assert recipe.data.name == "1\nseed = 5"
    assert recipe.data.seed == 1


@pytest.mark.parametrize(
    ("override", "parts"),
    [
        ("model.wdith=64", ["model.wdith", 'architecture = "transformer"', "did you mean model.width?"]),
        ("trian.max_steps=1", ["did you mean train?", "from the override trian.max_steps=1"]),
        ("train.lerning_rate=1", ["did you mean train.learning_rate?", "from the override train.lerning_rate=1"]),
        ("train.beam=3", ["did you mean search.beam?"]),
        ("model.cell=gru", ["another architecture"]),
        ("trian.seed=3", ["trian", "did you mean train?"]),
        ("train.qqqq=3", ["choose from", "learning_rate"]),
        ("train.schedule=cosin", ['train.schedule is "cosin"', '"inverse_sqrt"', 'did you mean "cosine"?']),
        ("train.max_steps=0", ["train.max_steps is 0", "at least 1"]),
        ("train.label_smoothing=1", ["less than 1"]),
        ("train.learning_rate=fast", ['train.learning_rate is "fast"', "a number"]),
        ("train.batch_tokens=1.5", ["train.batch_tokens is 1.5", "an integer"]),
        ("train.compile=maybe", ["true or false"]),
        ("train.betas=[0.9]", ["train.betas", "too few"]),
        ("train=5", ["train is 5", "a table"]),
        ("model.architecture=transfomer", ["from the override", '"transformer" or "recurrent"', "did you mean"]),
        ("model={layers=2}", ["model.architecture is missing", '"transformer" or "recurrent"']),
        ("data.source=3", ["data.source is 3", "a string or a list"]),
        ("data.source=[1]", ["data.source[0] is 1", "a string"]),
        ("model.decoder={architecture='recurrent', wdith=3}", ["[model.decoder]", "did you mean model.decoder.width?"]),
        ("model.decoder.architecture=recurent", ['model.decoder.architecture is "recurent"', 'mean "recurrent"?']),
        ("model.decoder.width=64", ["model.decoder.architecture is missing", "to [model.decoder]"]),
        ("model.decoder={architecture='recurrent', heads=3}", ["model.decoder.heads", "another architecture"]),
        ("model.decoder={architecture='transformer', heads=3}", ["model.decoder.width 256 is not a multiple"]),
        ("model.decoder={architecture='recurrent', bidirectional=true}", ["read the words it has to predict"]),
        ("model.decoder={architecture='recurrent', cell='rn'}", ['model.decoder.cell is "rn"', 'mean "rnn"?']),
        ("model.decoder={architecture='recurrent', layers='many'}", ['decoder.layers is "many"', "an integer"]),
        ("model.decodr={architecture='recurrent'}", ["did you mean model.decoder?"]),
        ("model.experts=-1", ["model.experts is -1", "at least 0"]),
        ("model.heads=3", ["model.width 128 is not a multiple of model.heads 3", "recipe phrasebook-transformer"]),
        ("model.tied=all", ["tokenizer.joint = true"]),
        ("train.seed.x=1", ["train.seed is 1, not a table"]),
        ("train.seed", ["section.key=value"]),
        ("=3", ["section.key=value"]),
        ("train..seed=3", ["section.key=value"]),
    ],
)
def test_an_error_names_the_key_and_what_is_allowed(override: str, parts: list[str]) -> None:
    message = error_of("phrasebook-transformer", override)
    for part in parts:
        assert part in message
    assert "\n" not in message
    assert "pydantic" not in message


def test_suggestions_for_the_model_know_only_the_chosen_architecture() -> None:
    assert "did you mean model.heads?" in error_of("phrasebook-transformer", "model.head=2")
    assert "did you mean model.heads?" not in error_of("phrasebook-attention", "model.head=2")


def test_several_problems_name_the_first_and_count_the_others(recipe_file: Path) -> None:
    recipe_file.write_text(SMALL + "seed = -1\nclip_norm = 0\nqqq = 3\n", encoding="utf-8")
    message = error_of(recipe_file)
    assert f"train.clip_norm is 0 in {recipe_file}, but must be greater than 0" in message
    assert message.endswith("(and 2 other problems)")


def test_a_missing_table_is_named(recipe_file: Path) -> None:
    recipe_file.write_text('task = "tag"\n[train]\nmax_steps = 3\n', encoding="utf-8")
    assert "the table [data] is missing" in error_of(recipe_file)


WITH_DATA = {
    "translate": 'corpus = "phrasebook"',
    "classify": 'corpus = "opinions"',
    "regress": 'train = "homes.tsv"',
    "tag": 'corpus = "phrasebook"',
    "language": 'corpus = "phrasebook"',
    "masked": 'corpus = "phrasebook"',
    "elmo": 'corpus = "phrasebook"',
    "forecast": 'corpus = "seasons"',
    "transcribe": 'corpus = "tones"',
    "caption": 'corpus = "scenes"',
    "answer": 'corpus = "stories"',
    "handwriting": 'corpus = "penfont"',
}


@pytest.mark.parametrize("task", JOBS)
def test_task_and_data_are_enough(task: str, recipe_file: Path) -> None:
    recipe_file.write_text(f'task = "{task}"\n[data]\n{WITH_DATA[task]}\n', encoding="utf-8")
    recipe = load_recipe(recipe_file)
    assert recipe.task == task
    assert recipe.train.max_minutes == 10
    recipe_file.write_text(recipe.to_toml(), encoding="utf-8")
    assert load_recipe(recipe_file) == recipe


def test_a_misspelt_table_is_named_rather_than_the_one_it_leaves_missing(recipe_file: Path) -> None:
    recipe_file.write_text(SMALL.replace("[train]", "[training]"), encoding="utf-8")
    message = error_of(recipe_file)
    assert message.startswith("training in ") and "is not a key of a recipe; did you mean train?" in message


def test_missing_recipes_and_files_are_errors(tmp_path: Path) -> None:
    assert "did you mean phrasebook-transformer?" in error_of("phrasebook-transformr")
    assert "the recipes that ship are " in error_of("zzzzzz")
    assert "nowhere.toml was not found" in error_of(tmp_path / "nowhere.toml")
    assert "is a folder" in error_of(tmp_path)
    (tmp_path / "recipe.toml").write_text(SMALL)
    assert f"give {tmp_path / 'recipe.toml'}" in error_of(tmp_path)


@pytest.mark.parametrize(
    ("content", "place"),
    [
        (b"[data]\ncorpus = \n", "line 2, column 10"),
        (b"[data]\ncorpus = 'a\xff'\n", "line 2, is not valid UTF-8"),
        (b"a = 1\na = 2\n", "line 2"),
        (b"[data", "line 1"),
    ],
)
def test_a_toml_syntax_error_names_its_line(recipe_file: Path, content: bytes, place: str) -> None:
    recipe_file.write_bytes(content)
    message = error_of(recipe_file)
    assert str(recipe_file) in message
    assert place in message


def test_a_recipe_writes_and_reads_back_the_same(tmp_path: Path) -> None:
    path = tmp_path / "recipe.toml"
    for name in recipe_names():
        overrides = ["train.clip_norm=none", *needed(name)]
        if load_recipe(name, overrides).task == "translate":
            overrides += ["data.max_characters=none", "data.test={source='a b', target='é\"'}"]
        recipe = load_recipe(name, overrides)
        assert recipe.train.clip_norm is None
        path.write_text(recipe.to_toml(), encoding="utf-8")
        assert load_recipe(path) == recipe
        assert load_recipe(path).source == str(path)
        assert load_recipe(path, ["train.seed=99"]) != recipe


text = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20).filter(lambda value: value != "none")


@settings(max_examples=50, deadline=None)
@given(source=st.lists(text, min_size=1, max_size=3), name=text, rate=st.floats(1e-12, 1e6), seed=st.integers(0, 2**62))
def test_any_value_survives_writing_and_reading(source: list[str], name: str, rate: float, seed: int) -> None:
    recipe = TranslateRecipe.model_validate(
        {
            "data": {"source": source, "target": source, "test": {name: {"source": source}}},
            "model": {"architecture": "recurrent"},
            "train": {"max_steps": 1, "learning_rate": rate, "seed": seed},
        }
    )
    assert TranslateRecipe.model_validate(tomllib.loads(recipe.to_toml())) == recipe


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=40))
def test_any_override_is_applied_or_explained(override: str) -> None:
    try:
        recipe = load_recipe("phrasebook-rnn", [override])
    except UserError as error:
        assert str(error)
    else:
        assert isinstance(recipe, Recipe)


def test_recipes_and_a_look_at_data_need_no_torch(tmp_path: Path) -> None:
    (tmp_path / "films.tsv").write_text("".join(f"a film {n}\t{('good', 'bad')[n % 2]}\n" for n in range(40)))
    code = (
        "import sys; from harken.recipe import load_recipe; from harken.recipe.look import look; "
        "from harken.registry import JOBS, recipe_class; load_recipe('phrasebook-transformer'); "
        f"[recipe_class(job) for job in JOBS]; assert look({str(tmp_path / 'films.tsv')!r}).task == 'classify'; "
        "print(sorted({'torch', 'sacrebleu', 'matplotlib', 'sentencepiece'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
