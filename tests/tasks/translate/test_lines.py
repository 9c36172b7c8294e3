"""A stream of lines: in order, on several workers, in bounded memory, and the same wherever a job begins."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import harken
from harken.errors import UserError
from harken.tasks.translate.files import lines as module
from harken.tasks.translate.files.threads import WorkerThreads
from harken.tasks.translate.translator import Translator

sys.path.insert(0, str(Path(__file__).parent))
from test_translator import ENGLISH, write_model

MANY = [f"{first} {second}".strip() for first in [*ENGLISH, ""] for second in [*ENGLISH, "", "yes"]]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Translator]:
    home, made = tmp_path_factory.mktemp("models"), {}

    def of(kind: str) -> Translator:
        if kind not in made:
            made[kind] = harken.load(write_model(home / kind, kind), device="cpu")
        return made[kind]

    return of


@pytest.fixture(autouse=True)
def _reference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARKEN_KERNELS", "off")  # nothing is compiled here


def results(found: Iterator[list[harken.Translation]]) -> list[list[tuple[str, float]]]:
    return [[(best.text, best.score) for best in some] for some in found]


@pytest.mark.parametrize("kind", ["transformer", "attention"])
def test_lines_come_in_order_and_as_from_a_list(models: Callable, kind: str) -> None:
    model = models(kind)
    wanted = model.nbest(MANY, 2, beam=3, attention=False)
    alone = results(model.translate_lines(MANY, 2, beam=3, workers=1))
    assert [[best.text for best in some] for some in wanted if some[0].source] == [
        [text for text, _ in some] for some in alone if some
    ]
    assert [bool(some) for some in alone] == [bool(line) for line in MANY]
    assert results(model.translate_lines(iter(MANY), 2, beam=3, workers=3)) == alone  # equal to the bit


@pytest.mark.parametrize("skip", [1, 16, 17, 40])
def test_a_job_that_begins_later_gives_the_same_bits(models: Callable, skip: int) -> None:
    model = models("attention")
    whole = results(model.translate_lines(MANY, beam=2, workers=2))
    assert results(model.translate_lines(MANY, beam=2, workers=1, skip=skip)) == whole[skip:]


def test_samples_depend_on_the_number_of_the_line_not_on_its_window(models: Callable) -> None:
    model = models("transformer")
    lines = ["the black cat"] * 6
    drawn = [results(model.translate_lines(lines, window=size, sample=True, seed=3)) for size in (1, 4)]
    texts = [[some[0][0] for some in found] for found in drawn]
    assert texts[0] == texts[1]
    assert len(set(texts[0])) > 1


def test_few_lines_are_read_before_the_first_is_answered_and_memory_is_bounded(
    models: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LARGEST", 32)
    read = 0

    def lines() -> Iterator[str]:
        nonlocal read
        for number in range(300):
            read += 1
            yield ENGLISH[number % 5] if number % 50 else ""

    ahead = []
    for done, _ in enumerate(models("rnn").translate_lines(lines(), beam=1, workers=2)):
        ahead.append(read - done)
    assert ahead[0] <= 16 + 32
    assert max(ahead) <= 64 + 1
    assert len(ahead) == 300


def test_a_stream_that_pauses_is_answered_line_by_line(models: Callable) -> None:
    asked: list[float] = []
    read: list[str] = []

    def available(seconds: float) -> bool:
        asked.append(seconds)
        return False

    def lines() -> Iterator[str]:
        for line in ENGLISH[:3]:
            read.append(line)
            yield line

    for number, best in enumerate(models("rnn").translate_lines(lines(), beam=1, available=available), start=1):
        assert len(read) == number and best[0].source == ENGLISH[number - 1]
    assert set(asked) == {0.0, module.GRACE}


def test_lines_before_an_unreadable_one_are_translated(models: Callable) -> None:
    def lines() -> Iterator[str]:
        yield from ENGLISH[:3]
        raise UserError("line 4 is not valid UTF-8")

    found = models("rnn").translate_lines(lines(), beam=1)
    assert [next(found)[0].source for _ in range(3)] == ENGLISH[:3]
    with pytest.raises(UserError, match="line 4"):
        next(found)


def test_long_lines_are_split_or_copied_and_reported(models: Callable) -> None:
    model = models("attention")
    sentence = "the black cat sleeps. "
    long = (sentence * 400).strip()
    said: list[tuple[int, str]] = []
    split, short = list(
        model.translate_lines([long, ENGLISH[0]], beam=1, attention=True, report=lambda *note: said.append(note))
    )
    assert short[0].text == model.translate(ENGLISH[0], beam=1).text
    number, note = said[0]
    parts = int(note.split(" in ")[1].split()[0])
    assert number == 0 and len(said) == 1 and parts > 5
    assert f"has {model.count_pieces(long):,} pieces, and the model takes 1,000 at once" in note
    assert split[0].source == long and split[0].score < 0
    links = split[0].alignment()
    assert max(source for source, _ in links) < 1600 and [target for _, target in links] == sorted(t for _, t in links)
    assert max(source for source, _ in links) > 1500 and len(links) == len(split[0].text.split())
    copied = list(model.translate_lines([long], long_lines="copy", report=lambda *note: said.append(note)))
    assert copied[0][0].text == long and said[1][1].endswith(": copied")


def test_errors_in_workers_end_the_job(models: Callable) -> None:
    with pytest.raises(UserError, match="the prefix has"):
        list(models("rnn").translate_lines(ENGLISH, prefix="le chat noir dort " * 20))


@pytest.mark.parametrize("count", [0, 1, 3])
def test_workers_give_every_result_and_every_error(count: int) -> None:
    with WorkerThreads(count) as workers:
        for number in range(5):
            workers.submit(lambda number=number: number * 2)
        assert sorted(workers.result() for _ in range(5)) == [0, 2, 4, 6, 8]
        with pytest.raises(ZeroDivisionError):
            workers.submit(lambda: 1 // 0)
            workers.result()
