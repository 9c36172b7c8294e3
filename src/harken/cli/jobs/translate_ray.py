"""`harken translate --engine ray`: shards of the input on a Ray cluster, written in the order of the input.

A shard that is ready before its turn is kept in the folder `.NAME.parts` beside the output, written atomically, and
removed when its lines have been appended. `--resume` reads the lines and the parts that are there, and translates the
shards that are missing. The record beside the output is that of one machine, so either engine continues the job of the
other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harken.cli.progress import Tick
from harken.files import atomic_write
from harken.serving.ray.cluster import cluster
from harken.serving.ray.shards import SHARD_LINES, Shard, ShardJob, TranslatedShard, cut_rounds, translate_round
from harken.tasks.translate.files.output_file import OutputFile

if TYPE_CHECKING:
    from harken.cli.jobs.translate import Notes

MIN_ROUND, ROUND_PER_WORKER = 64, 8  # shards that the driver holds: at least, and for every core or GPU of the cluster
FILE_OPTIONS = ("glossary", "language_model", "rerank")  # options that may name a file or a folder


class Parts:
    """Translated shards that are kept until their turn.

    >>> import tempfile
    >>> parts = Parts(Path(tempfile.mkdtemp()) / "parts")
    >>> parts.keep(TranslatedShard(2, ["c\\n"]))
    >>> [parts.find(Shard(first, [["c"]])) for first in (0, 2)]
    [None, TranslatedShard(first=2, outputs=['c\\n'], long=[], unknown=[])]
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def keep(self, result: TranslatedShard) -> None:
        """Write a shard."""
        atomic_write(self._path(result), result.to_json())

    def find(self, shard: Shard) -> TranslatedShard | None:
        """The result that an earlier run kept of a shard; None where there is none, or its file is damaged."""
        with suppress(OSError, ValueError, TypeError):
            stored = TranslatedShard.from_json(self._path(shard).read_text(encoding="utf-8"))
            if (stored.first, stored.end) == (shard.first, shard.end):
                return stored
        return None

    def remove(self, shard: Shard) -> None:
        """Forget a shard."""
        self._path(shard).unlink(missing_ok=True)

    def _path(self, shard: Shard | TranslatedShard) -> Path:
        return self.folder / f"{shard.first:012d}-{shard.end:012d}.json"


def absolute_files(options: dict[str, Any]) -> dict[str, Any]:
    """The options with absolute paths, as tasks run in other folders."""
    given = {name: Path(options[name]) for name in FILE_OPTIONS if options.get(name)}
    return {**options, **{name: str(path.absolute()) for name, path in given.items() if path.exists()}}


def write_round(
    shards: Sequence[Shard],
    translate: Callable[[Sequence[Shard]], Iterable[TranslatedShard]],
    output: OutputFile,
    notes: Notes,
    tick: Tick,
) -> None:
    """Append the output of consecutive shards in their order; those that an earlier run kept are not translated.

    Args:
        translate: gives translated shards in any order.
    """
    parts, ready, turn = Parts(output.parts), dict[int, TranslatedShard](), 0
    stored = [result for shard in shards if (result := parts.find(shard)) is not None]
    known = {result.first for result in stored}
    missing = [shard for shard in shards if shard.first not in known]
    for result in chain(stored, translate(missing) if missing else ()):
        ready[result.first] = result
        if result.first != shards[turn].first and result.first not in known:
            parts.keep(result)
        while turn < len(shards) and shards[turn].first in ready:
            _write(shards[turn], ready.pop(shards[turn].first), output, notes, tick)
            parts.remove(shards[turn])
            turn += 1


def _write(shard: Shard, result: TranslatedShard, output: OutputFile, notes: Notes, tick: Tick) -> None:
    unknown = dict(result.unknown)
    for number, text in result.long:
        if number >= output.done:
            notes.note_long(number, text)
    for number, (line, text) in enumerate(zip(shard.lines, result.outputs, strict=True), start=shard.first):
        if number >= output.done:
            output.write(text)
            notes.note_unknown(number, unknown.get(number, []))
            tick(line, True)


def translate_on_cluster(
    lines: Iterable[str],
    job: ShardJob,
    output: OutputFile,
    notes: Notes,
    tick: Tick,
    window: int | None,
    workers: int | None,
) -> None:
    """Translate lines to an open output on the cluster of RAY_ADDRESS, or on one that is started on this machine.

    Raises:
        UserError: ray is not installed, the cluster cannot be reached, or as the translation of a line says.
    """

    def counted() -> Iterator[str]:
        for number, line in enumerate(lines):
            if number < output.done:
                tick(line, False)
            yield line

    with cluster("data", workers) as ray:
        slots = workers or int(ray.cluster_resources().get("GPU" if job.device == "cuda" else "CPU", 1))
        per_round = max(MIN_ROUND, ROUND_PER_WORKER * slots)
        for shards in cut_rounds(counted(), window, per_round, output.done, SHARD_LINES):
            write_round(shards, lambda missing: translate_round(ray, missing, job, workers), output, notes, tick)
