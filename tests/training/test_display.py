"""What a person sees: time left, plain lines in a pipe, a bar in a terminal."""

import pytest

from harken.training import display
from harken.training.display import Bar, Lines, NullDisplay, Throughput, choose_display, remaining


@pytest.mark.parametrize(
    ("seconds", "first", "now", "text"),
    [
        (60, 0.0, 0.25, "3:00"),
        (60, 0.5, 0.75, "1:00"),  # resumed in the middle: only what this process did counts
        (3600, 0.0, 0.25, "3:00:00"),
        (5, 0.0, 1.0, "0:00"),
        (5, 0.3, 0.3, "?"),
    ],
)
def test_time_left(seconds: float, first: float, now: float, text: str) -> None:
    assert remaining(seconds, first, now) == text


def test_lines_come_every_few_seconds(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    clock = iter([1000.0, 1010.0, 1012.0, 1030.0])
    monkeypatch.setattr(display.time, "monotonic", lambda: next(clock))
    lines = Lines(every=15.0)
    lines.start("training", 0.0)
    for step in (1, 2, 3):
        lines.step(step, step / 10, 2.5, 1e-3, Throughput(1234.4))
    lines.log("a note")
    lines.stop()
    assert capsys.readouterr().out.splitlines() == [
        "training",
        "step      1   10%  loss 2.500  rate 1.00e-03  1,234 tokens/s  1:30 left",
        "step      3   30%  loss 2.500  rate 1.00e-03  1,234 tokens/s  1:10 left",
        "a note",
    ]


def test_a_speed_is_in_the_unit_of_the_task() -> None:
    assert str(Throughput(1234.4, 0.5, 0.1, "texts")) == "1,234 texts/s (50% of peak FLOP/s), 10% waiting for data"


def test_the_bar_shows_numbers_and_notes(capsys: pytest.CaptureFixture[str]) -> None:
    bar = Bar()
    bar.start("training", 0.25)
    assert bar.bar.tasks[0].completed == 0.25
    bar.step(7, 0.5, 2.5, 1e-3, Throughput(1234.4))
    bar.log("step 7 [validation]")
    bar.stop()
    task = bar.bar.tasks[0]
    assert task.percentage == 50
    assert task.fields["numbers"].startswith("step 7  loss 2.500  1,234 tokens/s  0:00 left")
    assert "step 7 [validation]" in capsys.readouterr().out


def test_the_right_one_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    assert type(choose_display(False)) is NullDisplay
    assert type(choose_display(True)) is Lines
    monkeypatch.setattr(display.sys.stdout, "isatty", lambda: True, raising=False)
    assert type(choose_display(True)) is Bar


def test_silence_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    silence = NullDisplay()
    silence.start("training", 0.0)
    silence.step(1, 0.1, 1.0, 1.0, Throughput(1.0))
    silence.log("note")
    silence.stop()
    assert capsys.readouterr().out == ""
