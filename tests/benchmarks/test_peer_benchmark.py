"""The parts of benchmarks/ that need no peer: reading speeds out of logs, and writing the record."""

import json
import sys
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

import harken_run  # noqa: E402
import peers  # noqa: E402
from measurement import Bench, Measurement, note_bleu  # noqa: E402
from peer_record import ratios, write_record  # noqa: E402
from peer_runs import joey_batch  # noqa: E402
from records import portable  # noqa: E402
from speed_logs import NoSpeed, Speed, eole_speed, harken_speed, joey_speed  # noqa: E402


def metrics(rates: list[float], tokens: int = 500, steps: int = 10) -> str:
    """A made-up metrics.jsonl whose lines run at the given rates, with lines of other kinds between them."""
    seconds, lines = 0.0, [json.dumps({"kind": "start", "seed": 1})]
    for number, rate in enumerate(rates, start=1):
        seconds += tokens / rate
        row = {"kind": "train", "step": number * steps, "loss": 3.0, "tokens": tokens, "seconds": seconds}
        lines += [json.dumps(row | {"tokens_per_second": 1e9}), json.dumps({"kind": "valid", "bleu": 1.0})]
    return "\n".join(lines) + "\n"


def test_harken_speed_drops_the_first_tenth_and_takes_the_median() -> None:
    speed = harken_speed(metrics([1.0] * 2 + [100.0] * 17 + [9000.0]))
    assert speed == Speed(100.0, pytest.approx(105.8), lines=18, steps=200, target_tokens_per_step=50.0)


def test_harken_speed_passes_over_a_line_cut_short() -> None:
    whole = metrics([50.0, 80.0, 80.0])
    assert harken_speed(whole + '{"kind": "train", "step": 40, "tok') == harken_speed(whole)


def test_harken_speed_falls_back_on_the_lines_own_rate() -> None:
    rows = [{"kind": "train", "step": i, "tokens": 7, "tokens_per_second": 10.0 * i} for i in range(1, 5)]
    assert harken_speed("\n".join(map(json.dumps, rows))).tokens_per_second == 30.0


def test_validation_time_is_left_out() -> None:
    rows = [{"kind": "train", "step": i, "tokens": 60, "seconds": 10.0 * i} for i in (1, 2, 3)]
    rows.insert(1, {"kind": "valid", "step": 1, "seconds": 16.0})
    rows.insert(3, {"kind": "valid", "step": 2, "seconds": 26.0})
    assert harken_speed("\n".join(map(json.dumps, rows))).tokens_per_second == 15.0


def test_one_line_is_too_few() -> None:
    with pytest.raises(NoSpeed, match="has 1 speed lines"):
        harken_speed(metrics([10.0]))


@given(st.lists(st.floats(min_value=1, max_value=1e6), min_size=2, max_size=40))
def test_the_median_lies_within_the_rates(rates: list[float]) -> None:
    assert min(rates) - 0.1 <= harken_speed(metrics(rates)).tokens_per_second <= max(rates) + 0.1


def test_joey_speed_reads_rate_and_batch_size() -> None:
    line = "2026-01-01 10:00:{:02d},000 - INFO - joeynmt.training - Epoch   1, Step: {:8d}, Batch Loss:     7.2, "
    line += "Batch Acc: 0.06, Tokens per Sec: {:8.0f}, Lr: 0.00005"
    log = "\n".join([line.format(0, 20, 500), line.format(10, 40, 600), line.format(20, 60, 800)])
    assert joey_speed(log) == Speed(700.0, 685.7, lines=2, steps=60, target_tokens_per_step=350.0)


def test_eole_speed_reads_the_target_side() -> None:
    line = "[2026-01-01 INFO] Step {}/1000000; acc: 9.0; ppl: 99.00; xent: 9.00; aux: 0.000; mtp: 0.000; "
    line += "attn_ent: 0.000; lr: 1.00e-05; sents:    1000; bsz:  850/ {}/50; 1800/{} tok/s;      9 sec;"
    log = "\n".join([line.format(20, 900, 100), line.format(40, 880, 2000), line.format(60, 860, 2200)])
    assert eole_speed(log) == Speed(2100.0, 2095.2, lines=2, steps=60, target_tokens_per_step=880.0)


def measured(tool: str, threads: str, rate: float) -> Measurement:
    speed = Speed(rate, rate, lines=9, steps=90, target_tokens_per_step=500.0)
    load = {"foreign_share": 0.2, "wall_s": 10.0, "own_cpu_s": 8.0 if tool == "harken" else 10.0}
    return Measurement(tool, "transformer", threads, "float32", ["run", tool], speed, load=load)


def test_the_ratio_is_to_the_peers_best_thread_setting() -> None:
    runs = [measured("joeynmt", "1", 800.0), measured("joeynmt", "2", 1000.0), measured("harken", "own choice", 4000.0)]
    row = {"architecture": "transformer", "peer": "joeynmt", "threads": "2", "dtype": "float32"}
    assert ratios(runs) == [row | {"ratio": 4.0, "cpu_ratio": 5.0, "aim": 3.0}]


def test_the_record_marks_pollution_and_names_no_folder_of_this_machine(tmp_path: Path) -> None:
    runs = [measured("eole", "1", 2000.0), measured("harken", "own choice", 3000.0)]
    runs[0].command = [str(tmp_path / "venvs" / "python"), "train"]
    runs.append(Measurement("joeynmt", "transformer", "1", "float32", ["x"], problem="ended | badly"))
    record = {"name": "trial", "command": "python peers.py", "seconds": 9, "versions": {}, "skipped": {"a": "b"}}
    path = write_record(tmp_path / "records", record, runs, {"$WORK": tmp_path})
    text = path.read_text()
    assert (
        "0.200 (polluted)" in text
        and "ended / badly" in text
        and "float32 | eole, 1 threads | 1.5 | 1.88 | 1.25" in text
    )
    assert "$WORK/venvs/python train" in text and str(tmp_path) not in text + path.with_suffix(".json").read_text()
    assert json.loads(path.with_suffix(".json").read_text())["measurements"][1]["speed"]["tokens_per_second"] == 3000.0


def test_portable_replaces_the_longest_folder_first() -> None:
    assert portable("/a/b/c /a/d", {"$A": Path("/a"), "$B": Path("/a/b")}) == "$B/c $A/d"


def test_a_missing_folder_skips_with_a_reason(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["peers.py", "--peers", "/no/such/folder"])
    assert peers.main() == 0
    assert "skipped: /no/such/folder" in capsys.readouterr().out


def test_harken_is_trained_and_scored_as_a_user_would(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for harken writes a made-up metrics.jsonl and translates by looking the answer up."""
    (tmp_path / "with_load_check.py").write_text(
        "import subprocess, sys\n"
        "status = subprocess.call(sys.argv[1:])\n"
        'print(\'{"load_check": true, "foreign_share": 0.01}\')\n'
        "sys.exit(status)\n"
    )
    (tmp_path / "metrics").write_text(metrics([10.0, 40.0, 40.0]))
    for split, answer in (
        ("val", "a cat sleeps under the table ."),
        ("test_2016_flickr", "a dog runs over the grass ."),
    ):
        (tmp_path / f"{split}.de").write_text("ein Satz\n")
        (tmp_path / f"{split}.en").write_text(f"{answer}\n")
    (tmp_path / "stand_in.py").write_text(
        "import pathlib, sys\n"
        "here = pathlib.Path(__file__).parent\n"
        "if sys.argv[1] == 'train':\n"
        "    out = pathlib.Path(sys.argv[sys.argv.index('--out') + 1])\n"
        "    out.mkdir(parents=True)\n"
        "    (out / 'metrics.jsonl').write_text((here / 'metrics').read_text())\n"
        "    (out / 'recipe.toml').write_text('task = \"translate\"')\n"
        "else:\n"
        "    print(pathlib.Path(sys.argv[3]).with_suffix('.en').read_text(), end='')\n"
    )
    monkeypatch.setattr(harken_run, "harken_command", lambda: [sys.executable, str(tmp_path / "stand_in.py")])
    bench = Bench(tmp_path, tmp_path, tmp_path, tmp_path, seconds=90, wait_idle=0)
    result = harken_run.run_harken(bench, "transformer", ["train.seed=7"], bleu=True)
    assert result.problem is None
    assert result.speed is not None and result.speed.tokens_per_second == 40.0
    assert (result.bleu, result.validation_bleu) == (100.0, 100.0)
    assert result.load["foreign_share"] == 0.01 and result.settings == {"task": "translate"}
    assert {"train.max_minutes=1.5000", "model.width=256", "train.seed=7"} <= set(result.command)
    recipe = tomllib.loads((tmp_path / "runs" / "harken-transformer-fitted.toml").read_text())
    assert recipe["model"] == {"architecture": "transformer"} and "train" not in recipe


def test_the_batch_size_of_joeynmt_gives_the_wanted_target_tokens_with_its_padding() -> None:
    lengths = [(9, 9), (19, 4)] * 500  # half of the pairs are padded to 20: a target token for 2.67 padded ones
    size = joey_batch(lengths, 750)
    assert 1950 <= size <= 2050


def test_a_missing_line_is_a_problem_not_a_score(tmp_path: Path) -> None:
    for name, text in (
        ("val.en", "a b c d\n"),
        ("out.val", "a b c d\n"),
        ("test_2016_flickr.en", "a\nb\n"),
        ("out", "a\n"),
    ):
        (tmp_path / name).write_text(text)
    result = Measurement("eole", "transformer", "1", "float32", ["x"])
    note_bleu(result, tmp_path, tmp_path / "out.val", tmp_path / "out", "killed")
    assert result.problem == "decoding failed (1 lines for 2): killed" and result.bleu is None
