"""`harken translate`: one line out for every line in, in every format."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

TEXT = "the black cat\n\nsleeps  well\n"


def test_lines_in_lines_out(api: Any, run: Callable[..., Any], model: Path) -> None:
    done = run("translate", model, stdin=TEXT)
    assert done.exit_code == 0, done.stderr
    assert done.stdout == "THE BLACK CAT\n\nSLEEPS  WELL\n"
    sentences, options = api.loaded[0].calls[0]
    assert sentences == ["the black cat", "sleeps  well"]
    assert options == {"count": 1, "beam": None, "attention": False}


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\n\r\ufeff"), max_size=12), max_size=9))
def test_line_n_of_the_output_belongs_to_line_n_of_the_input(
    api: Any, run: Callable[..., Any], model: Path, lines: list[str]
) -> None:
    done = run("translate", model, "--batch", 2, stdin="".join(f"{line}\n" for line in lines).encode())
    assert done.exit_code == 0
    wanted = [line.upper() if line.strip() else "" for line in lines]
    assert done.stdout_bytes.decode() == "".join(f"{line}\n" for line in wanted)


def test_files_plain_and_compressed(api: Any, run: Callable[..., Any], model: Path, tmp_path: Path) -> None:
    (tmp_path / "a.en").write_text(TEXT)
    with gzip.open(tmp_path / "a.en.gz", "wt") as stream:
        stream.write(TEXT)
    for name in ("a.en", "a.en.gz"):
        assert run("translate", model, tmp_path / name).stdout == "THE BLACK CAT\n\nSLEEPS  WELL\n"
    assert run("translate", model, "-", stdin="x\n").stdout == "X\n"


def test_batches_bound_what_is_read_at_once(api: Any, run: Callable[..., Any], model: Path) -> None:
    run("translate", model, "--batch", 2, stdin="a\nb\nc\nd\ne\n")
    assert [sentences for sentences, _ in api.loaded[0].calls] == [["a", "b"], ["c", "d"], ["e"]]


def test_scores_and_nbest(api: Any, run: Callable[..., Any], model: Path) -> None:
    assert run("translate", model, "--scores", stdin="a\n\n").stdout == "A\t-0.2500\n\t0.0000\n"
    done = run("translate", model, "--nbest", 2, stdin="a\n\nb c\n")
    assert done.stdout.splitlines() == [
        "0 ||| A ||| -0.2500",
        "0 ||| A ||| -0.2500",
        "1 |||  ||| 0.0000",
        "2 ||| B C ||| -0.2500",
        "2 ||| B C ||| -0.2500",
    ]


def test_nbest_needs_no_beam_but_does_not_fit_a_narrower_one(api: Any, run: Callable[..., Any], model: Path) -> None:
    assert run("translate", model, "--nbest", 9, stdin="a\n").exit_code == 0
    assert api.loaded[0].calls[0][1] == {"count": 9, "beam": None, "attention": False}
    refused = run("translate", model, "--nbest", 9, "--beam", 3, stdin="a\n")
    assert refused.exit_code == 2
    assert "--beam 9" in refused.stderr


def test_alignments_are_written_line_by_line(api: Any, run: Callable[..., Any], model: Path, tmp_path: Path) -> None:
    links = tmp_path / "links.txt"
    done = run("translate", model, "--alignments", links, stdin=TEXT)
    assert done.exit_code == 0
    assert links.read_text() == "0-0 1-1 2-2\n\n0-0 1-1\n"
    assert api.loaded[0].calls[0][1]["attention"] is True


def test_alignments_need_attention(api: Any, run: Callable[..., Any], model: Path, tmp_path: Path) -> None:
    api.attends = False
    done = run("translate", model, "--alignments", tmp_path / "links.txt", stdin="a\n")
    assert done.exit_code == 2
    assert "has no attention" in done.stderr
    answer = json.loads(run("translate", model, "--json", stdin="a\n").stdout)
    assert answer["translations"][0]["alignment"] is None


def test_json_lines(api: Any, run: Callable[..., Any], model: Path) -> None:
    answers = [json.loads(line) for line in run("translate", model, "--json", stdin="é b\n\n").stdout.splitlines()]
    assert answers == [
        {
            "source": "é b",
            "unknown": [],
            "translations": [{"text": "É B", "score": -0.25, "alignment": [[0, 0], [1, 1]]}],
        },
        {"source": "", "unknown": [], "translations": []},
    ]


@pytest.mark.parametrize(
    ("arguments", "stdin", "said"),
    [
        ((), b"fine\nb\xffd\n", "stdin, line 2"),
        (("nowhere.en",), None, "nowhere.en"),
        (("--alignments", "/dev/null/x"), b"a\n", "cannot be written"),
    ],
)
def test_mistakes_are_named(
    api: Any, run: Callable[..., Any], model: Path, arguments: tuple[str, ...], stdin: bytes | None, said: str
) -> None:
    done = run("translate", model, *arguments, stdin=stdin)
    assert done.exit_code == 2
    assert said in done.stderr


def test_a_model_that_is_not_there(api: Any, run: Callable[..., Any], tmp_path: Path) -> None:
    done = run("translate", tmp_path / "none", stdin="a\n")
    assert done.exit_code == 2
    assert "is no model folder" in done.stderr


def test_words_the_model_has_never_seen_are_named(api: Any, run: Callable[..., Any], model: Path) -> None:
    done = run("translate", model, stdin="the zebra\nthe cat\n")
    assert done.stdout == "THE ZEBRA\nTHE CAT\n"
    assert "line 1: the model has never seen zebra, so the translation is a guess there" in done.stderr
    assert "line 2" not in done.stderr
    entries = [json.loads(line) for line in run("translate", model, "--json", stdin="a zebra\nb\n").stdout.splitlines()]
    assert [entry["unknown"] for entry in entries] == [["zebra"], []]
    many = run("translate", model, stdin="zebra\n" * 8)
    assert many.stderr.count("never seen zebra") == 5
    assert "8 of 8 lines have words that the model has never seen" in many.stderr
