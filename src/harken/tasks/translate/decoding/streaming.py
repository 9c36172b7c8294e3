"""A translation while it is being written: the text that no later step of the search can change."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from queue import SimpleQueue
from typing import TYPE_CHECKING

from harken.errors import UserError
from harken.search.conflicts import OF_STREAMS, conflict_of
from harken.search.streaming import CertainPrefix
from harken.tasks.translate.decoding.searching import Request, search

if TYPE_CHECKING:
    from harken.tasks.translate.translator import Translator


def stream(translator: Translator, sentence: str, request: Request) -> Iterator[str]:
    """Parts of a translation, as soon as they are certain; together they are what `translate` gives.

    The search runs in a thread of its own and is cancelled where the reader stops.

    Raises:
        UserError: minimum Bayes risk, which knows nothing before its end.
    """
    if reason := conflict_of(request.config, OF_STREAMS):
        raise UserError(reason)
    sources, decode = translator.read([sentence]), translator.target.decode
    if not sources.ids[0]:
        return
    fill = sources.forms[0].fill
    prefixes: SimpleQueue[list[int] | BaseException | None] = SimpleQueue()
    stopped = threading.Event()
    is_cancelled = request.cancelled

    def cancelled() -> bool:
        return stopped.is_set() or (is_cancelled is not None and is_cancelled())

    def work() -> None:
        try:
            watched = replace(request, observe=CertainPrefix(prefixes.put), cancelled=cancelled)
            best = search(watched, sources, [0], 1)[0][0]
            prefixes.put(best.tokens)
        except BaseException as problem:  # it is raised again where the stream is read
            prefixes.put(problem)
        prefixes.put(None)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    shown, text = "", ""
    try:
        while (part := prefixes.get()) is not None:
            if isinstance(part, BaseException):
                raise part
            text, settled = (
                fill(decode(part)),
                fill(decode(part[:-1])),
            )  # the spacing of the last token may depend on the next
            if text.startswith(settled) and settled.startswith(shown):
                yield settled[len(shown) :]
                shown = settled
        yield text[len(shown) :]
    finally:
        stopped.set()
        thread.join()
