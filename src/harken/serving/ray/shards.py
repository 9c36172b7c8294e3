"""Batch translation with Ray Data: lines are cut into shards, each a task that runs on any node.

    lines -> windows -> shards -> rounds -> map_batches -> translated shards, in any order

Windows are those of `harken.tasks.translate.files.lines`, and a shard is several whole windows, so every line has the
neighbours in its batch that it has on one machine, and the output is the same to the byte. A round is what the driver
holds in memory at a time. A task whose node dies is run again by Ray on another.

>>> [shard] = next(cut_rounds(["a", "b", "c"], window=2, per_round=8))
>>> shard.windows, (shard.first, shard.end)
([['a', 'b'], ['c']], (0, 3))
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from types import ModuleType
from typing import TYPE_CHECKING, Any

from harken.errors import UserError

if TYPE_CHECKING:
    from harken.tasks.translate.translation import Translation
    from harken.tasks.translate.translator import Translator

SHARD_LINES = 1024  # a shard ends after the window that makes it as long; windows have up to 4,096 lines
Render = Callable[[int, str, "Sequence[Translation]"], str]  # number of a line, the line, its translations -> output


@dataclass(frozen=True)
class Shard:
    """Consecutive windows of the input."""

    first: int  # number of its first line, from 0
    windows: list[list[str]]

    @property
    def lines(self) -> list[str]:
        """All lines."""
        return list(chain.from_iterable(self.windows))

    @property
    def end(self) -> int:
        """The number of the line after its last."""
        return self.first + sum(map(len, self.windows))


@dataclass(frozen=True)
class ShardJob:
    """The work that tasks do on every shard.

    Args:
        folders: the model, and further ones of an ensemble; at the same paths on all nodes.
        device: cpu or cuda.
        count, beam, attention, long_lines, options: of `Translator.translate_lines`.
        render: makes the output of a line; a function of a module, as it travels by its name.
    """

    folders: tuple[str, ...]
    device: str
    render: Render
    count: int = 1
    beam: int | None = None
    attention: bool = False
    long_lines: Any = "split"
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class TranslatedShard:
    """The output of a shard, in a form that is kept as JSON.

    Args:
        outputs: for each line what is written.
        long: numbers of lines that were too long, with what became of them.
        unknown: numbers of lines with words that the model has never seen, with these words.
    """

    first: int
    outputs: list[str]
    long: list[tuple[int, str]] = field(default_factory=list)
    unknown: list[tuple[int, list[str]]] = field(default_factory=list)

    @property
    def end(self) -> int:
        """The number of the line after its last."""
        return self.first + len(self.outputs)

    def to_json(self) -> str:
        """As JSON."""
        return json.dumps(vars(self), ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> TranslatedShard:
        """
        Raises:
            ValueError, TypeError: it is none.
        """
        shard = cls(**json.loads(text))
        if not isinstance(shard.first, int) or not all(isinstance(output, str) for output in shard.outputs):
            raise ValueError("no translated shard")
        return shard


def cut_rounds(
    lines: Iterable[str], window: int | None, per_round: int, skip: int = 0, shard_lines: int = SHARD_LINES
) -> Iterator[list[Shard]]:
    """Shards in lists of at most `per_round`; an error of the stream is raised after the shards of what was read.

    Args:
        window: as in `Translator.translate_lines`.
        skip: shards that end at or before this line are left out.
    """
    from harken.tasks.translate.files.lines import Reader

    reader = Reader(lines, None, window)
    shards: list[Shard] = []
    shard = Shard(0, [])
    while not reader.has_ended:
        if taken := reader.window(wait=True):
            shard.windows.append(taken)
        if shard.windows and (reader.has_ended or shard.end - shard.first >= shard_lines):
            if shard.end > skip:
                shards.append(shard)
            shard = Shard(shard.end, [])
        if len(shards) == per_round:
            yield shards
            shards = []
    if shards:
        yield shards
    if reader.error is not None:
        raise reader.error


def translate_shard(shard: Shard, job: ShardJob) -> TranslatedShard:
    """Translate a shard in this process, with one thread.

    Raises:
        UserError: as `Translator.translate_lines`.
    """
    from harken.tasks.translate.files.lines import translate_lines

    translator, *others = _load(job.folders, job.device)
    options = {**job.options, **({"ensemble": others} if others else {})}
    result = TranslatedShard(shard.first, [])
    first = shard.first
    for lines in shard.windows:
        results = translate_lines(
            translator,
            lines,
            translator.request(job.count, beam=job.beam, **options),
            job.count,
            attention=job.attention,
            workers=1,
            window=len(lines),
            first=first,
            long_lines=job.long_lines,
            report=lambda number, text: result.long.append((number, text)),
        )
        for number, (line, translations) in enumerate(zip(lines, results, strict=True), start=first):
            result.outputs.append(job.render(number, line, translations))
            if translations and translations[0].unknown:
                result.unknown.append((number, list(translations[0].unknown_words)))
        first += len(lines)
    return result


@lru_cache(maxsize=1)  # a worker process runs many tasks
def _load(folders: tuple[str, ...], device: str) -> list[Translator]:
    from harken.api import load

    translators = [load(folder, device) for folder in folders]
    translators[0].prepare()
    return translators


def _run_task(batch: dict[str, Any], job: ShardJob) -> dict[str, Any]:
    """Translate one shard for `map_batches`; an error of the user is a result, so that Ray does not wrap it."""
    results = []
    for text in batch["shard"]:
        try:
            results.append(translate_shard(Shard(**json.loads(str(text))), job).to_json())
        except UserError as error:
            results.append(json.dumps({"error": str(error)}, ensure_ascii=False))
    return {"result": results}


def translate_round(ray: ModuleType, shards: Sequence[Shard], job: ShardJob, workers: int | None) -> Iterator[Any]:
    """The translated shards of a round, as they are ready.

    Args:
        workers: tasks at once. Default: as many as the cluster has cores or GPUs for.

    Raises:
        UserError: of a task.
    """
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars, context.print_on_execution_start = False, False
    context.execution_options.verbose_progress = False
    rows = [{"shard": json.dumps(vars(shard), ensure_ascii=False)} for shard in shards]
    resources = {"num_gpus": 1, "max_calls": 0} if job.device == "cuda" else {"num_cpus": 1}
    translated = ray.data.from_items(rows, override_num_blocks=len(rows)).map_batches(
        _run_task, batch_size=1, fn_kwargs={"job": job}, concurrency=workers, **resources
    )
    taken = set()
    for row in translated.iter_rows():
        if message := json.loads(row["result"]).get("error"):
            raise UserError(message)
        result = TranslatedShard.from_json(row["result"])
        if result.first not in taken:
            taken.add(result.first)
            yield result
