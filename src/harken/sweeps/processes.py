"""A function applied to items, each in a forked process of its own, several at once.

A process of its own keeps what happens in it from the others: memory, a crash, a kill. It ends with the one that
started it, however that ends: SIGTERM is raised in it when the pipe between them closes, upon which a training saves a
checkpoint. Ctrl-C reaches the first process alone, which then closes the pipe.

>>> dict(run_each(lambda item, slot: 10 // item, [1, 2, 5], jobs=2))[2]
Outcome(value=2, error='')
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from multiprocessing import connection, get_context
from typing import Any, NamedTuple, TypeVar

from harken.errors import UserError

Item = TypeVar("Item")


class Outcome(NamedTuple):
    """The result of a call, or a sentence on why there is none."""

    value: Any
    error: str = ""


def run_each(
    function: Callable[[Item, int], Any], items: Iterable[Item | None], jobs: int = 1, until: float | None = None
) -> Iterator[tuple[int, Outcome]]:
    """`function(item, slot)` for every item; yields the index of an item and its outcome as it ends.

    Args:
        function: `slot` is the number of the call among those that run at once, below `jobs`.
        items: read when a process is free. None in place of an item: the next one depends on the outcome of another.
        jobs: how many run at once.
        until: the `time.monotonic()` at which what runs is ended, without an outcome.
    """
    context: Any = get_context("fork")
    waiting, running = iter(items), dict[Any, tuple[int, int, Any]]()  # pipe -> index, slot, process
    count = 0
    watched, lifeline = os.pipe()
    try:
        while True:
            while len(running) < jobs and (item := next(waiting, None)) is not None:
                slot = min(set(range(jobs)) - {slot for _, slot, _ in running.values()})
                here, there = context.Pipe(duplex=False)
                process = context.Process(target=_serve, args=(function, item, slot, there, watched, lifeline))
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside threads, which hold no lock
                    process.start()
                there.close()
                running[here] = count, slot, process
                count += 1
            left = None if until is None else max(0.0, until - time.monotonic())
            if not running or not (ended := connection.wait(list(running), left)):  # all is done, or the time is up
                return
            for pipe in ended:
                index, _, process = running[pipe]
                outcome = _receive(pipe, process)
                del running[pipe]
                yield index, outcome
    finally:
        os.close(lifeline)
        try:
            for _, _, process in running.values():
                process.join()
        except KeyboardInterrupt:  # a second Ctrl-C
            for _, _, process in running.values():
                process.kill()
            raise
        finally:
            os.close(watched)


def _receive(pipe: Any, process: Any) -> Outcome:
    try:
        outcome: Outcome = pipe.recv()
    except (EOFError, OSError):
        outcome = Outcome(None)
    finally:
        pipe.close()
        process.join()
    if process.exitcode < 0:
        name = signal.Signals(-process.exitcode).name
        remedy = "usually because the machine ran out of memory" if name == "SIGKILL" else "by a crash or by a user"
        return Outcome(None, f"the process was ended by {name}, {remedy}")
    return (
        outcome if outcome.value is not None or outcome.error else Outcome(None, "the process ended without a result")
    )


def _serve(function: Callable[..., Any], item: Any, slot: int, pipe: Any, watched: int, lifeline: int) -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    os.close(lifeline)
    threading.Thread(target=_end_with_parent, args=(watched,), daemon=True).start()
    try:
        outcome = Outcome(function(item, slot))
    except UserError as problem:
        outcome = Outcome(None, str(problem))
    except KeyboardInterrupt:
        outcome = Outcome(None, "it was stopped; give the same command again to go on")
    except Exception as problem:
        traceback.print_exc()
        outcome = Outcome(None, f"internal error: {type(problem).__name__}: {UserError(problem)}")
    with suppress(OSError):
        pipe.send(outcome)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()


def _end_with_parent(watched: int) -> None:
    with suppress(OSError):
        os.read(watched, 1)  # returns when the other end is closed
        os.kill(os.getpid(), signal.SIGTERM)
