"""Translations of a stream of lines: in order, in constant memory, on all cores.

    lines -> windows -> batches -> workers -> lines in the order they were read

A window is sorted by length and cut into batches of about equally many tokens; workers translate the batches of at most
two windows at a time. The first window is small, so that the first lines come at once, and each is twice as long as the
one before, up to `LARGEST`. Windows and batches depend on the lines alone, neither on the time nor on the number of
workers, so a job that continues at line N (`skip`) gives every line the neighbours that it had before.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal

import numpy as np

from harken.data.batching import token_batches
from harken.machine import available_cores
from harken.tasks.translate.decoding.searching import Request, translate_batch
from harken.tasks.translate.files.long_lines import PART, copied, join_translations, split_text
from harken.tasks.translate.files.threads import WorkerThreads
from harken.tasks.translate.translation import Translation

if TYPE_CHECKING:
    from harken.tasks.translate.translator import Translator

SMALLEST, LARGEST = 16, 4096  # lines of the first window, and of a window at most
CHARACTERS = 2**21  # a window ends past so many
SENTENCE = 32  # pieces of a sentence, of which search.batch_sentences make a batch
GRACE = 0.02  # seconds that a window waits for further lines where none is being translated

LongLines = Literal["split", "copy"]
Available = Callable[[float], bool]  # whether a line can be read within so many seconds
Report = Callable[[int, str], None]  # called with the number of a line, from 0, and what became of it
Translations = list[tuple[Translation, int]]  # translations of one text, best first, each with its number of tokens


class Window:
    """Some lines, and their translations as they come."""

    def __init__(self, first: int, lines: Sequence[str], translator: Translator, split: bool, report: Report) -> None:
        self.first, self.lines = first, lines
        self.copied: set[int] = set()  # lines that are too long to be translated
        self.parts: list[list[int]] = []  # of each line: its texts; none where it is blank
        self.texts: list[str] = []
        for line, text in enumerate(lines):
            parts = [text] if text.strip() else []
            pieces = translator.count_pieces(text) if len(text) >= translator.limit else 0
            if pieces > translator.limit:
                excess = f"has {pieces:,} pieces, and the model takes {translator.limit:,} at once"
                if split and not translator.recipe.data.source_heads:  # a tree cannot be cut
                    parts = split_text(text, translator.limit, PART, translator.count_pieces)
                    report(first + line, f"{excess}: translated in {len(parts)} parts")
                else:
                    parts = []
                    self.copied.add(line)
                    report(first + line, f"{excess}: copied")
            self.parts.append(list(range(len(self.texts), len(self.texts) + len(parts))))
            self.texts += parts
        self.numbers = [first + line for line, parts in enumerate(self.parts) for _ in parts]
        self.sources = translator.read(self.texts, self.numbers)
        self.translations: list[Translations | None] = [
            None if ids else [(Translation(text, "", 0.0, np.zeros((0, len(text.split())))), 1)]
            for text, ids in zip(self.texts, self.sources.ids, strict=True)
        ]

    def batches(self, tokens: int) -> list[list[int]]:
        """The texts to translate, sorted by length, in batches of at most so many tokens."""
        ids = self.sources.ids
        filled = np.array([index for index, row in enumerate(ids) if row], dtype=np.int64)
        lengths = [len(ids[index]) + 1 for index in filled]
        return [
            filled[rows].tolist() for rows in token_batches(lengths, lengths, tokens, seed=0, epoch=0, shuffle=False)
        ]

    def is_ready(self, line: int) -> bool:
        """Whether all of a line has been translated."""
        return all(self.translations[part] is not None for part in self.parts[line])

    def result(self, line: int) -> list[Translation]:
        """The translations of a line, best first; none of a blank one."""
        source = self.lines[line]
        if line in self.copied:
            return [copied(source)]
        parts = [best for part in self.parts[line] if (best := self.translations[part]) is not None]
        if len(parts) < 2:
            return [translation for best in parts for translation, _ in best]
        return join_translations(
            source,
            [self.texts[part] for part in self.parts[line]],
            [[translation for translation, _ in best] for best in parts],
            [[tokens for _, tokens in best] for best in parts],
        )


class Reader:
    """Cuts a stream into windows; an error of the stream waits until what was read before it has been taken."""

    def __init__(self, lines: Iterable[str], available: Available | None, size: int | None) -> None:
        self._lines, self._available, self._fixed = iter(lines), available, size
        self._size = size or SMALLEST
        self.has_ended = False
        self.error: Exception | None = None

    def window(self, wait: bool) -> list[str]:
        """The next lines; fewer where more would have to be waited for, none without `wait` or at the end."""
        window_lines: list[str] = []
        characters = 0
        while not self.has_ended and len(window_lines) < self._size and characters < CHARACTERS:
            if self._available is not None and (window_lines or not wait):
                grace = GRACE if window_lines and wait else 0.0
                if not self._available(grace):
                    break
            try:
                window_lines.append(next(self._lines))
                characters += len(window_lines[-1])
            except StopIteration:
                self.has_ended = True
            except Exception as error:  # such as a line that is not UTF-8; those before it are translated first
                self.has_ended, self.error = True, error
        if window_lines and self._fixed is None:
            self._size = min(2 * self._size, LARGEST)
        return window_lines


def translate_lines(
    translator: Translator,
    lines: Iterable[str],
    request: Request,
    count: int,
    *,
    attention: bool = False,
    workers: int | None = None,
    window: int | None = None,
    skip: int = 0,
    first: int = 0,
    long_lines: LongLines = "split",
    available: Available | None = None,
    report: Report | None = None,
) -> Iterator[list[Translation]]:
    """The `count` best translations of every line, in order; arguments as `Translator.translate_lines`.

    Args:
        first: the number of the first line, where the lines are part of a longer text.
    """
    if request.config.shortlist:
        _ = translator.shortlist  # loaded or learnt once, before the threads start
    if attention:
        translator.build_network()  # so that the threads start with torch, each with one of its own
    on_cpu = translator.is_on_cpu
    tokens = request.config.batch_sentences * SENTENCE * (1 if on_cpu else 8)
    reader, windows, number = Reader(lines, available, window), deque[Window](), first

    def run(of: Window, batch: list[int]) -> tuple[Window, list[int], list[Translations]]:
        numbers = [of.numbers[index] for index in batch]
        return of, batch, translate_batch(request, of.sources, batch, count, attention, row_numbers=numbers)

    with WorkerThreads[tuple[Window, list[int], list[Translations]]](
        (workers or available_cores()) if on_cpu else 0
    ) as pool:
        running, position = 0, 0  # batches; the next line of the first window
        while True:
            while len(windows) < 2 and (window_lines := reader.window(wait=not windows)):
                number += len(window_lines)
                if number <= skip:
                    continue
                windows.append(
                    Window(
                        number - len(window_lines),
                        window_lines,
                        translator,
                        long_lines == "split",
                        report or (lambda *_: None),
                    )
                )
                for batch in windows[-1].batches(tokens):
                    pool.submit(partial(run, windows[-1], batch))
                    running += 1
            while windows and windows[0].is_ready(position):
                if windows[0].first + position >= skip:
                    yield windows[0].result(position)
                position += 1
                if position == len(windows[0].lines):
                    windows.popleft()
                    position = 0
            if running and windows:
                of, batch, results = pool.result()
                running -= 1
                for index, translations in zip(batch, results, strict=True):
                    of.translations[index] = translations
            elif not windows and reader.has_ended:
                break
    if reader.error is not None:
        raise reader.error
