"""What one training run gives, and how it is watched: every run goes through the load check beside the project.

A tool that failed still gives a `Measurement`, with the reason in `problem`: one broken tool does not end the rest.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from speed_logs import NoSpeed, Speed

BATCH_TOKENS = 1024
STOP_SLACK = 600  # seconds a tool may take beyond its training time: start, vocabulary, final save, final scores


@dataclass
class Measurement:
    """What one run of one tool showed and under which conditions."""

    tool: str
    architecture: str
    threads: str
    dtype: str
    command: list[str]
    speed: Speed | None = None
    bleu: float | None = None  # test_2016_flickr
    validation_bleu: float | None = None
    batch_tokens: int = BATCH_TOKENS
    learning_rate: float | None = None  # peak, where this run was given one
    load: dict[str, Any] = field(default_factory=dict)
    reported: list[dict[str, Any]] = field(default_factory=list)  # the JSON lines the measuring script printed
    settings: dict[str, Any] = field(default_factory=dict)  # harken: the resolved recipe
    problem: str | None = None

    @property
    def tokens_per_cpu_second(self) -> float | None:
        """Mean target tokens/s over the cores that this run had on average: hardly affected by other processes."""
        cpu, wall = self.load.get("own_cpu_s"), self.load.get("wall_s")
        return round(self.speed.mean_tokens_per_second * wall / cpu, 1) if self.speed and cpu and wall else None


@dataclass(frozen=True, slots=True)
class Bench:
    """Where things are and how long to train."""

    scripts: Path  # ../shared/peers
    work: Path
    raw: Path  # unpacked Multi30k
    prepared: Path  # what prep_multi30k.py made of it
    seconds: float
    wait_idle: float
    target_tokens: float | None = None  # per step: what JoeyNMT's batch size is to be matched to

    def watched(self, command: list[str], environment: dict[str, str]) -> tuple[int, list[dict[str, Any]], str]:
        """Runs the command under the load check; returns status, the JSON lines printed, and the end of the output."""
        whole = [sys.executable, str(self.scripts / "with_load_check.py"), *command]
        process = subprocess.Popen(
            whole,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment | {"WAIT_IDLE": str(self.wait_idle)},
            # A group of its own, so that a run that hangs can be ended with all it started; not a session of its own,
            # which would have a scheduling group (autogroup) of its own and lose this process's priority.
            process_group=0,
        )
        try:
            output, errors = process.communicate(timeout=self.wait_idle + self.seconds + STOP_SLACK)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
        rows = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
        return process.returncode, rows, " | ".join((output + errors).strip().splitlines()[-3:])

    def run(self, measurement: Measurement, environment: dict[str, str]) -> bool:
        """Runs the measurement's command and notes load and problem; whether it ended well."""
        try:
            status, rows, tail = self.watched(measurement.command, environment)
        except subprocess.TimeoutExpired as error:
            measurement.problem = f"did not end within {error.timeout:.0f} s"
            return False
        measurement.load = next((row for row in rows if row.get("load_check")), {})
        measurement.reported = [row for row in rows if not row.get("load_check")]
        if status != 0:
            measurement.problem = f"ended with status {status}: {tail}"
        return status == 0


def read_speed(result: Measurement, log: Path, reader: Callable[[str], Speed]) -> None:
    """Notes the speed the log shows, or why it shows none."""
    try:
        result.speed = reader(log.read_text())
    except (NoSpeed, OSError) as error:
        result.problem = str(error)


def bleu_score(hypotheses: list[str], reference: Path) -> float:
    """sacrebleu, 13a, cased.

    Raises:
        ValueError: the numbers of lines differ.
    """
    import sacrebleu

    references = reference.read_text(encoding="utf-8").splitlines()
    if len(hypotheses) != len(references):
        raise ValueError(f"{len(hypotheses)} lines for {len(references)}")
    return round(sacrebleu.corpus_bleu(hypotheses, [references]).score, 2)


def note_bleu(result: Measurement, raw: Path, validation: Path, test: Path, errors: str) -> None:
    """Notes both scores, or why there are none."""
    try:
        result.validation_bleu = bleu_score(validation.read_text(encoding="utf-8").splitlines(), raw / "val.en")
        result.bleu = bleu_score(test.read_text(encoding="utf-8").splitlines(), raw / "test_2016_flickr.en")
    except (OSError, ValueError) as error:
        result.problem = f"decoding failed ({error}): {' | '.join(errors.strip().splitlines()[-3:])}"
