"""Recipes inferred from files and folders of data."""

import json
import tomllib
from pathlib import Path
from typing import Any, Literal

import pytest

from harken.data.io.keys import DataTable
from harken.errors import UserError
from harken.paths import PathStr
from harken.recipe import Recipe, TableColumn, load_recipe
from harken.recipe.infer import infer, recipe_file
from harken.recipe.look import look
from harken.registry import TASKS, register_task
from harken.tasks.classify.job import ClassifyJob
from harken.tasks.classify.recipe import ClassifyRecipe
from harken.tasks.job import Job
from harken.tasks.registry import job_of

WORDS = ["a good film", "what a story", "not so bad, really", "the worst of all", "we liked it a lot", "too long"]
TEXTS = [f"{text} {number}" for number in range(10) for text in WORDS]
FRENCH = [f"{text} {number}" for number in range(10) for text in ("un bon film", "quelle histoire", "pas si mal") * 2]


def table(path: Path, *columns: list[Any], header: list[str] | None = None, separator: str = "\t") -> Path:
    rows = [*([header] if header else []), *zip(*columns, strict=True)]
    cells = [[f'"{cell}"' if separator in str(cell) else str(cell) for cell in row] for row in rows]
    path.write_text("".join(separator.join(row) + "\n" for row in cells), encoding="utf-8")
    return path


def error_of(path: Path, **options: str) -> str:
    with pytest.raises(UserError) as caught:
        infer(path, **options)  # type: ignore[arg-type]
    return str(caught.value)


def test_few_short_values_beside_texts_are_labels(tmp_path: Path) -> None:
    found = infer(table(tmp_path / "a.tsv", TEXTS, ["good", "bad", "bad"] * 20))
    assert found.task == "classify" and found.reason == "texts in 0, 2 labels in 1"
    assert found.data == {
        "train": str(tmp_path / "a.tsv"), "format": "table", "header": False, "text_column": "0", "label_column": "1",
        "stratify": True,
    }  # fmt: skip
    named = infer(table(tmp_path / "b.csv", [0, 1, 2] * 20, TEXTS, header=["topic", "review"], separator=","))
    assert named.data["label_column"] == "topic" and named.data["text_column"] == "review"
    assert "header" not in named.data


def test_a_column_called_label_needs_few_rows(tmp_path: Path) -> None:
    (tmp_path / "tiny.csv").write_text("text,label\ngood film,1\nbad film,0\n")
    assert infer(tmp_path / "tiny.csv").task == "classify"


def test_identifiers_are_left_out_and_texts_are_joined(tmp_path: Path) -> None:
    ids = [f"x{number}" for number in range(60)]
    numbers = list(range(60))
    path = table(tmp_path / "a.tsv", numbers, ids, TEXTS, FRENCH, ["good", "bad"] * 30)
    assert infer(path).data["text_column"] == ["2", "3"]
    assert infer(path, text="3").data["text_column"] == "3"


def test_two_texts_of_similar_length_are_translations(tmp_path: Path) -> None:
    found = infer(table(tmp_path / "pairs.txt", TEXTS, FRENCH))
    assert found.task == "translate"
    assert found.data["source_column"] == 0 and found.data["target_column"] == 1
    named = infer(table(tmp_path / "named.tsv", FRENCH, TEXTS, ["web", "news"] * 30, header=["fr", "en", "domain"]))
    assert named.task == "translate" and "header" not in named.data
    assert (named.data["source_language"], named.data["target_language"]) == ("fr", "en")
    turned = infer(tmp_path / "pairs.txt", text="1", target="0")
    assert turned.data["source_column"] == 1 and turned.data["target_column"] == 0


def test_quotes_that_are_part_of_the_text_are_kept(tmp_path: Path) -> None:
    path = table(tmp_path / "a.tsv", ['"so" he said', *TEXTS[1:]], ["good", "bad"] * 30)
    assert infer(path).data["quotes"] is False


def test_a_number_beside_a_text_is_regressed(tmp_path: Path) -> None:
    found = infer(table(tmp_path / "a.tsv", TEXTS, [0.37 * number**2 for number in range(60)]))
    assert found.task == "regress" and found.data["label_column"] == "1"


def test_tags_and_stories_and_signals_are_known_by_their_lines(tmp_path: Path) -> None:
    (tmp_path / "a.bio").write_text("the O\nEiffel B-place\ntower I-place\n\n" * 20)
    assert infer(tmp_path / "a.bio").data["format"] == "conll"
    (tmp_path / "b.conllu").write_text("1\tthe\tthe\tDET\t_\t_\t2\tdet\t_\t_\n\n")
    assert infer(tmp_path / "b.conllu").task == "tag"
    (tmp_path / "c.jsonl").write_text(json.dumps({"tokens": ["the", "cat"], "tags": ["D", "N"]}) + "\n")
    assert infer(tmp_path / "c.jsonl").data["word_column"] == "tokens"
    (tmp_path / "d.txt").write_text("1 Mary slept.\n2 Where is Mary?\tbed\t1\n" * 5)
    assert infer(tmp_path / "d.txt").task == "answer"
    (tmp_path / "e.tra").write_text("1, 2, 3, 4, 0\n" * 5)
    assert "--task classify" in error_of(tmp_path / "e.tra")
    assert infer(tmp_path / "e.tra", task="classify").data["kind"] == "signal"


def test_labels_may_begin_lines_in_another_encoding(tmp_path: Path) -> None:
    lines = "".join(
        f"{label}:fine what is a {'é' * (number % 3)} {number} ?\n" for number in range(30) for label in "AB"
    )
    (tmp_path / "TREC.train").write_bytes(lines.encode("latin-1"))
    data = infer(tmp_path / "TREC.train").data
    assert data["encoding"] == "cp1252" and data["label_until"] == ":" and data["format"] == "prefix"


def test_other_text_is_for_a_language_model(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("\n".join(f"word{number} and more" for number in range(60)))
    assert infer(tmp_path / "a.txt").task == "language"
    (tmp_path / "train.en").write_text("\n".join(TEXTS))
    (tmp_path / "train.fr").write_text("\n".join(FRENCH))
    (tmp_path / "news.en-fr.en").write_text("\n".join(TEXTS))
    (tmp_path / "news.en-fr.fr").write_text("\n".join(FRENCH))
    pairs = infer(tmp_path / "news.en-fr.fr")
    assert pairs.task == "translate" and pairs.data["target"] == str(tmp_path / "news.en-fr.en")
    assert infer(tmp_path / "train.en").data["pair"] == "en-fr"
    assert infer(tmp_path / "train.en", task="language").task == "language"


def test_folders(tmp_path: Path) -> None:
    def folder(name: str, **files: str) -> Path:
        (tmp_path / name).mkdir()
        for file, content in files.items():
            (tmp_path / name / file.replace("_", ".")).write_text(content)
        return tmp_path / name

    classes = infer(folder("names", Greek_txt="Pavlou\nAdamou\n", Irish_txt="Byrne\nDaly\n"))
    assert classes.task == "classify" and classes.tables == {"tokenizer": {"kind": "character"}}
    pairs = infer(folder("pairs", train_fr="un\n", train_en="one\n", val_en="two\n", val_fr="deux\n"))
    assert pairs.data == {"dir": str(tmp_path / "pairs"), "pair": "en-fr"}
    many = folder("many", train_fr="un\n", train_en="one\n", train_de="eins\n")
    assert f"harken train {many} --pair en-de --out runs/many" in error_of(many)
    assert infer(many, pair="de-en").data["pair"] == "de-en"
    rows = "".join(f"{text}\t{label}\n" for text, label in zip(TEXTS, ["good", "bad"] * 30, strict=True))
    tables = infer(folder("tables", train_tsv=rows, test_tsv=rows, dev_tsv=rows))
    assert tables.data["test"].endswith("test.tsv") and tables.data["valid"].endswith("dev.tsv")
    spoken = infer(folder("spoken", a_wav="", a_txt="one two\n", b_wav="", b_txt="three\n"))
    lines = [json.loads(line) for line in spoken.conversions["train"].lines()]
    assert spoken.task == "transcribe" and [record["text"] for record in lines] == ["one two", "three"]
    assert "no texts to learn from them" in error_of(folder("silent", a_wav="", b_wav=""))
    drawn = infer(folder("drawn", a_png="", b_png="", list_csv="image,caption\na.png,a red house\nb.png,a dog\n"))
    assert drawn.task == "caption" and drawn.data["caption_column"] == "caption"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "", "is empty"),
        ("a.tar.xz", "x", "is an archive"),
        ("a.jsonl", '{"text": \n', "is not valid JSON"),
        ("a.csv", "a\0b", "is no text file"),
        ("a.csv", "date,value\n", "has no row below its header"),
        ("a.wav", "RIFF", "is a single file"),
        ("a.txt.xz", "no xz", "is not valid compressed data"),
        ("a.csv", "x,y\n" + "1,2\n3,4\n7,9\n" * 3, "--task forecast --target-column y"),
        (
            "a.tsv",
            "".join(f"{t}\t{'xy'[i % 2]}\t{'pq'[i % 2]}\n" for i, t in enumerate(TEXTS)),
            "--target-column 1 --out",
        ),
    ],
)
def test_what_is_ambiguous_or_broken_gets_one_sentence(tmp_path: Path, name: str, content: str, message: str) -> None:
    (tmp_path / name).write_text(content)
    found = error_of(tmp_path / name)
    assert message in found and str(tmp_path / name) in found and "\n" not in found


def test_wrong_options_are_named(tmp_path: Path) -> None:
    path = table(tmp_path / "a.tsv", TEXTS, ["good", "bad"] * 30)
    assert "there is no task 'clasify'" in error_of(path, task="clasify")
    assert "has no column 'topic' (--target-column); it has 0, 1" in error_of(path, target="topic")
    path = table(tmp_path / "named.tsv", TEXTS, ["good", "bad", "bad"] * 20, header=["Body", "Mood"])
    assert "has no column 'Bdy' (--text-column); did you mean 'Body'?" in error_of(path, text="Bdy")


def test_a_column_of_one_value_is_not_predicted(tmp_path: Path) -> None:
    path = table(
        tmp_path / "a.tsv", TEXTS, ["good", "bad", "bad"] * 20, ["done"] * 60, header=["Body", "Mood", "State"]
    )
    assert infer(path).data["label_column"] == "Mood" and infer(path).data["text_column"] == "Body"
    constant = table(tmp_path / "b.tsv", TEXTS, ["done"] * 60, header=["Body", "State"])
    assert infer(constant, task="language").reason == "texts in Body"
    assert "does not exist" in error_of(tmp_path / "none.csv")


def test_the_recipe_is_valid_and_says_why(tmp_path: Path) -> None:
    found = infer(table(tmp_path / "a.tsv", TEXTS, ["good", "bad"] * 30))
    (tmp_path / "my.toml").write_text(found.to_toml(2.5))
    assert load_recipe(tmp_path / "my.toml").train.max_minutes == 2.5
    assert found.to_toml().startswith("# classify: texts in 0, 2 labels in 1 (inferred by harken)")
    assert tomllib.loads(found.to_toml())["train"] == {"max_minutes": 10}


def test_overrides_are_part_of_the_saved_recipe(tmp_path: Path) -> None:
    data = table(tmp_path / "a.tsv", TEXTS, ["good", "bad"] * 30)
    place = tmp_path / "run.toml"
    recipe_file(data, place)
    recipe_file(data, place, ["train.max_minutes=3", "model.width=32"])  # the file differs in these keys alone
    saved = tomllib.loads(place.read_text())
    assert saved["train"] == {"max_minutes": 3} and saved["model"] == {"architecture": "recurrent", "width": 32}
    place.write_text(place.read_text().replace("good", "fine") + "\n[tokenizer]\nkind = 'character'\n")
    with pytest.raises(UserError, match="exists and differs from the recipe for this data"):
        recipe_file(data, place, ["train.max_minutes=3"])


def test_a_header_with_quotes_in_a_name_is_read(tmp_path: Path) -> None:
    """`train` and `evaluate` read tables by one reader, so that a header of the one is a header of the other."""
    path = tmp_path / "tickets.csv"
    text = '"the printer is, again, out of paper, and of ink as well"'
    rows = [f'{text[:-1]} {number}",{"ab"[number % 2]}' for number in range(40)]
    path.write_text("\n".join(['"Body ""full""",queue', *rows]), encoding="utf-8")
    data = infer(path).data
    assert data["text_column"] == 'Body "full"' and data["label_column"] == "queue" and "header" not in data


def test_a_test_is_held_out_of_enough_examples(tmp_path: Path) -> None:
    few = infer(table(tmp_path / "few.tsv", TEXTS, ["good", "bad"] * 30, header=["text", "label"]))
    assert "test_size" not in few.data
    many, labels = [f"{text} {number}" for number in range(10) for text in TEXTS], ["good", "bad"] * 300
    path = table(tmp_path / "many.tsv", many, labels, header=["text", "label"])
    assert infer(path).data["test_size"] == 0.1
    recipe = load_recipe(recipe_file(path, tmp_path / "recipe.toml")[0])
    splits = job_of("classify").load_data(recipe)
    assert 40 <= len(splits.tests["test"]) <= 80 and len(splits.train) > 400
    assert infer(path, target="label", task="regress").data["test_size"] == 0.1
    assert infer(table(tmp_path / "pairs.tsv", many[:250], many[250:500])).data["test_size"] == 0.2


def test_a_test_is_held_out_of_a_folder_of_recordings(tmp_path: Path) -> None:
    for number in range(250):
        (tmp_path / f"{number}.wav").write_bytes(b"")
        (tmp_path / f"{number}.txt").write_text(f"number {number}\n")
    inferred = infer(tmp_path)
    assert (inferred.task, inferred.data["test_size"]) == ("transcribe", 0.2)


def test_the_test_of_an_archive_of_signals_is_taken(tmp_path: Path) -> None:
    rows = "".join(f"{number},{number + 1}.5,2:{'ab'[number % 2]}\n" for number in range(20))
    content = f"@problemName any\n@classLabel true a b\n@data\n{rows.replace('2:', '3:')}"
    for name in ("Any_TRAIN.ts", "Any_TEST.ts", "Other_TRAIN.ts"):
        (tmp_path / name).write_text(content)
    assert infer(tmp_path / "Any_TRAIN.ts").data["test"] == str(tmp_path / "Any_TEST.ts")
    assert "test" not in infer(tmp_path / "Other_TRAIN.ts").data
    assert "test" not in infer(tmp_path / "Any_TEST.ts").data


def test_a_given_test_is_taken(tmp_path: Path) -> None:
    many, labels = [f"{text} {number}" for number in range(10) for text in TEXTS], ["good", "bad"] * 300
    for name in ("train.tsv", "test.tsv"):
        table(tmp_path / name, many, labels, header=["text", "label"])
    inferred = infer(tmp_path)
    assert inferred.data["test"] == str(tmp_path / "test.tsv") and "test_size" not in inferred.data


def test_sentences_of_tags_and_classes_in_files_are_counted(tmp_path: Path) -> None:
    (tmp_path / "tags.conll").write_text("".join(f"the\tDET\ncat{row}\tNOUN\n\n" for row in range(250)))
    inferred = infer(tmp_path / "tags.conll", task="tag")
    assert inferred.task == "tag" and inferred.data["test_size"] == 0.2
    recipe = load_recipe(recipe_file(tmp_path / "tags.conll", tmp_path / "tags.toml")[0])
    corpus = job_of("tag").load_data(recipe)
    assert len(corpus.tests["test"]) > 0
    folder = tmp_path / "classes"
    folder.mkdir()
    for name in ("good", "bad"):
        (folder / f"{name}.txt").write_text("\n".join(f"{text} {name}" for text in range(120)) + "\n")
    assert infer(folder).data["test_size"] == 0.21


@pytest.mark.parametrize("name", ["reviews.csv", "reviews.txt"])
def test_text_without_spaces_is_read_by_characters(tmp_path: Path, name: str) -> None:
    texts = [f"{number}番の{'良い' if number % 2 else '悪い'}映画でした" for number in range(300)]
    labels = ["good" if number % 2 else "bad" for number in range(300)]
    separator, order = (",", 1) if name.endswith("csv") else (" ", -1)
    lines = [separator.join((text, label)[::order]) for text, label in zip(texts, labels, strict=True)]
    (tmp_path / name).write_text("\n".join(["text,label"] * (order == 1) + lines), encoding="utf-8")
    inferred = infer(tmp_path / name)
    assert (inferred.task, inferred.tables) == ("classify", {"tokenizer": {"kind": "character"}})


def test_a_pair_that_the_data_does_not_have_is_refused(tmp_path: Path) -> None:
    table = tmp_path / "pairs.tsv"
    table.write_text("en\tfr\n" + "".join(f"the cat number {n}\tle chat {n}\n" for n in range(30)), encoding="utf-8")
    assert infer(table, pair="en-fr").data["target_language"] == "fr"
    with pytest.raises(UserError, match=r"are en-fr, not de-en; leave --pair out$"):
        infer(table, pair="de-en")
    with pytest.raises(UserError, match=r"not fr-en; leave --pair out, or swap --text-column and --target-column"):
        infer(table, pair="fr-en")
    table.write_text("".join(f"good film {n}\tyes\nbad film {n}\tno\n" for n in range(30)), encoding="utf-8")
    with pytest.raises(UserError, match="--pair en-fr is for translation"):
        infer(table, pair="en-fr")


def test_ratings_of_a_long_scale_are_numbers(tmp_path: Path) -> None:
    table = tmp_path / "ratings.csv"
    rows = "".join(f"sun and light number {n},{n % 51}.0\n" for n in range(600))
    table.write_text(f"words,rating\n{rows}", encoding="utf-8")
    assert infer(table).task == "regress"


def test_jobs_of_plugins_are_inferred_like_those_that_ship(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class MoodRecipe(ClassifyRecipe):
        task: Literal["mood"] = "mood"  # type: ignore[assignment]

    class SceneData(DataTable):
        train: PathStr | None = None
        valid: PathStr | None = None
        picture: str = "picture"
        label: str = "label"
        test_size: float = 0

    class SceneRecipe(Recipe):
        input_column = TableColumn("picture", ("image",), "picture")
        target_column = TableColumn("label", ("label",), "label")
        task: Literal["scene"] = "scene"  # type: ignore[assignment]
        data: SceneData

    monkeypatch.setattr(TASKS, "_registered", {})
    table(tmp_path / "films.tsv", TEXTS, ["good", "bad"] * 30, header=["review", "mood"])
    assert "there is no task 'mood'" in error_of(tmp_path / "films.tsv", task="mood")
    register_task("mood")(type("MoodJob", (ClassifyJob,), {"recipe": MoodRecipe}))
    mood = infer(tmp_path / "films.tsv", task="mood")
    assert (mood.task, mood.data["label_column"], mood.data["stratify"]) == ("mood", "mood", True)
    (tmp_path / "prefixed.txt").write_text("".join(f"__label__{label} a film\n" for label in ("good", "bad") * 30))
    assert infer(tmp_path / "prefixed.txt", task="mood").data["format"] == "prefix"
    columns = [f"{number}.png" for number in range(300)], ["indoors", "outdoors"] * 150
    path = table(tmp_path / "scenes.csv", *columns, header=["shot", "place"], separator=",")
    assert infer(path).task == "caption"
    register_task("scene")(type("SceneJob", (Job,), {"recipe": SceneRecipe}))
    scenes = infer(path)
    assert scenes.task == "scene"  # no other job reads pictures and predicts labels
    assert scenes.data == {"train": str(path), "picture": "shot", "label": "place", "test_size": 0.17}


def test_a_test_is_held_out_of_lists_of_words(tmp_path: Path) -> None:
    rows = [json.dumps({"tokens": ["cat", str(number)], "tags": ["N", "X"]}) for number in range(300)]
    (tmp_path / "a.jsonl").write_text("\n".join(rows) + "\n")
    assert infer(tmp_path / "a.jsonl").data["test_size"] == 0.17
    assert dict(look(tmp_path / "a.jsonl").facts)["rows"] == "300"


def test_the_test_file_of_captions_is_found(tmp_path: Path) -> None:
    for name in ("train", "test"):
        (tmp_path / f"{name}.csv").write_text("image,caption\n" + "a.png,a red house stands here\nb.png,a dog\n" * 9)
    assert infer(tmp_path).data["test"] == str(tmp_path / "test.csv")


def test_formats_of_one_job_are_recognised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder, file in (("unpacked/flickr", "Flickr8k.token.txt"), ("digits", "train.npz.xz")):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / file).touch()
    captions = infer(tmp_path / "unpacked")  # an archive's only folder
    assert (captions.task, captions.data["dir"]) == ("caption", str(tmp_path / "unpacked" / "flickr"))
    assert infer(tmp_path / "digits").data == {"dir": str(tmp_path / "digits")}

    class TuneRecipe(ClassifyRecipe):
        task: Literal["tune"] = "tune"  # type: ignore[assignment]

        @classmethod
        def recognise(cls, path: Path) -> tuple[str, dict[str, Any]] | None:
            return ("notes", {"train": str(path), "kind": "signal"}) if path.suffix == ".notes" else None

    (tmp_path / "a.notes").write_text("c d e\n")
    assert infer(tmp_path / "a.notes").task == "language"
    monkeypatch.setattr(TASKS, "_registered", {})
    register_task("tune")(type("TuneJob", (ClassifyJob,), {"recipe": TuneRecipe}))
    for options in ({}, {"task": "tune"}):
        tune = infer(tmp_path / "a.notes", **options)
        assert (tune.task, tune.reason, tune.data["kind"]) == ("tune", "notes", "signal")
