"""A worker: holds the models, runs batches and streams, one step after the other.

Messages to a worker:

    ("batch", number, model, operation, options, items)     -> ("result", number, results) or ("error", number, problem)
    ("stream", number, model, operation, options, item)     -> ("event", number, value) ..., ("end", number)
    ("cancel", number)                                      -> ("end", number), unless it was answered already
    ("load", model, folder)                                 -> ("loaded", model, facts) or ("refused", model, message)
    ("stop",)

Streams are advanced by one event between batches, so neither waits long for the other. The search of a streamed
translation runs in a thread of its own; operations that put hooks into the model, and every batch on a GPU, wait until
such streams have ended. A search in steps asks at each of them whether it was cancelled; what cannot be asked, such as
a compiled search, runs on until the engine ends the worker. A folder is loaded beside the work and swapped in between
two batches. A worker is a process (`ProcessWorker`), of which a thread tells every `BEAT_SECONDS` that it is alive, or,
for tests, a thread (`ThreadWorker`); both run the same `WorkerLoop`.
"""

from __future__ import annotations

import atexit
import contextlib
import multiprocessing
import os
import queue
import select
import signal
import threading
import time
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import resource_tracker
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harken.machine import available_cores
from harken.registry import import_plugins, plugin_places

if TYPE_CHECKING:
    from harken.tasks.interface import Operation

Message = tuple[Any, ...]
BEAT_SECONDS = 0.5  # between two signs of life of a worker process
DIRECT_BYTES = 16_384  # of a message that is written at once: a socket that takes anything has room for so much


class Problem(Exception):
    """An error in a form that travels between processes: whose fault it is, and one sentence."""

    def __init__(self, message: str, is_user_error: bool = False) -> None:
        super().__init__(message)
        self.message, self.is_user_error = message, is_user_error

    def __reduce__(self) -> tuple[Any, ...]:
        return (Problem, (self.message, self.is_user_error))

    @classmethod
    def of(cls, error: Exception) -> Problem:
        """A `UserError` keeps its sentence; of any other error the type alone is told."""
        from harken.errors import UserError

        if isinstance(error, UserError):
            return cls(str(error), True)
        return cls(f"internal error: {type(error).__name__}")


class WorkerLoop:
    """The loop of a worker, whether thread or process.

    Args:
        send: gives a message back; called from one thread at a time.
        device: where models are loaded.
        prepare: load or compile the decoding kernels before they are needed.
    """

    def __init__(self, send: Callable[[Message], None], device: str, prepare: bool = False) -> None:
        self.inbox: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self.models: dict[str, Any] = {}
        self._send, self._device, self._prepare = send, device, prepare
        self._streams: dict[int, Iterator[Any]] = {}
        self._threaded: set[int] = set()  # streams with a thread of their own
        self._cancelled: set[int] = set()  # until the message is read in its turn
        self._lock = threading.Lock()

    def put(self, message: Message) -> None:
        """Give the worker a message, from any thread; a cancellation is seen at once."""
        if message[0] == "cancel":
            self._cancelled.add(message[1])
        self.inbox.put(message)

    def send(self, message: Message) -> None:
        """Give a message back, from any thread."""
        with self._lock:
            self._send(message)

    def run(self) -> None:
        """Work until told to stop; streams that run are finished first."""
        stopping = False
        while not stopping or self._streams:
            try:
                message = self.inbox.get(block=not self._streams)
            except queue.Empty:
                message = ("advance",)
            stopping = stopping or message[0] == "stop"
            getattr(self, f"_do_{message[0]}")(*message[1:])
            if self._streams:
                self._advance()

    def _do_stop(self) -> None:
        pass

    def _do_advance(self) -> None:
        pass

    def _do_cancel(self, number: int) -> None:
        self._cancelled.discard(number)
        stream = self._streams.pop(number, None)
        if stream is not None:
            self._threaded.discard(number)
            stream.close()  # type: ignore[attr-defined]
            self.send(("end", number))

    def _do_batch(self, number: int, model: str, operation: str, options: dict[str, Any], items: list[Any]) -> None:
        from harken.serving.operations import run_batch

        def is_cancelled() -> bool:
            return number in self._cancelled

        while self._threaded and self._is_exclusive(model, operation, options) and not is_cancelled():
            self._advance(sorted(self._threaded))
        if is_cancelled():
            self.send(("end", number))
            return
        try:
            results = run_batch(self.models[model], operation, items, options, is_cancelled)
        except Exception as error:
            _report(error)
            self.send(("error", number, Problem.of(error)))
            return
        self.send(
            ("result", number, [_problem(result) if isinstance(result, Exception) else result for result in results])
        )

    def _do_stream(self, number: int, model: str, operation: str, options: dict[str, Any], item: Any) -> None:
        from harken.serving.operations import run_stream

        try:
            self._streams[number] = run_stream(
                self.models[model], operation, item, options, lambda: number in self._cancelled
            )
            if getattr(self._operation(model, operation), "streams_in_thread", False):
                self._threaded.add(number)
        except Exception as error:
            _report(error)
            self.send(("error", number, Problem.of(error)))

    def _do_load(self, name: str, folder: str) -> None:
        def load() -> None:
            from harken.api import load as load_folder
            from harken.api import load_quickly

            try:
                if self._prepare:
                    loaded = load_quickly(Path(folder), lambda line: None, self._device)
                else:
                    loaded = load_folder(folder, self._device)
                self.put(("swap", name, loaded))
            except Exception as error:
                _report(error)
                self.send(("refused", name, Problem.of(error).message))

        if name in self.models:  # another version of a model that is served: requests go on meanwhile
            threading.Thread(target=load, daemon=True).start()
        else:
            load()

    def _do_swap(self, name: str, loaded: Any) -> None:
        from harken.serving.operations import facts_of

        self.models[name] = loaded
        if self._prepare:
            from harken.kernels.weights import freeze
            from harken.tasks.registry import job_of

            freeze(loaded)  # nothing changes the weights of a model here, so no call need compare them
            job_of(loaded.recipe.task).prepare_serving(loaded)
        self.send(("loaded", name, facts_of(loaded)))

    def _operation(self, model: str, name: str) -> Operation | None:
        """The declaration of an operation of a model; None for one that needs no model."""
        from harken.serving.operations import operations_of

        loaded = self.models.get(model)
        return None if loaded is None else operations_of(loaded.recipe.task).get(name)

    def _is_exclusive(self, model: str, name: str, options: dict[str, Any]) -> bool:
        """Whether no search of a stream may use the model while an operation runs."""
        operation = self._operation(model, name)
        is_on_cpu = getattr(self.models.get(model), "is_on_cpu", True)
        return not is_on_cpu or (operation is not None and operation.is_exclusive(options))

    def _advance(self, numbers: Sequence[int] | None = None) -> None:
        """One event of every stream, or of some."""
        for number in numbers or list(self._streams):
            try:
                self.send(("event", number, next(self._streams[number])))
            except StopIteration:
                self._end(number)
                self.send(("end", number))
            except Exception as error:
                _report(error)
                self._end(number)
                self.send(("error", number, Problem.of(error)))

    def _end(self, number: int) -> None:
        del self._streams[number]
        self._threaded.discard(number)


def _report(error: Exception) -> None:
    """Print an internal error to the log."""
    import sys

    from harken.errors import UserError
    from harken.serving.errors import describe_internal_error

    if not isinstance(error, UserError):
        print(describe_internal_error(error), file=sys.stderr, flush=True)


def _problem(error: Exception) -> Problem:
    return error if isinstance(error, Problem) else Problem.of(error)


class ThreadWorker:
    """A worker in this process.

    Args:
        receive: called with every message of the worker, in its thread; None where it has ended.
    """

    pid: int | None = None

    def __init__(self, device: str, receive: Callable[[Message | None], None], workers: int = 1) -> None:
        self._receive, self._has_ended = receive, False
        self._loop = WorkerLoop(self._forward, device)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._loop.run()
        finally:
            self.kill()

    def _forward(self, message: Message) -> None:
        if not self._has_ended:
            self._receive(message)

    def send(self, message: Message) -> None:
        """Give the worker a message."""
        self._loop.put(message)

    @property
    def silent_seconds(self) -> float:
        """A thread gives no signs of life."""
        return 0.0

    def is_stopped(self) -> bool:
        """A thread cannot be stopped by a signal of its own."""
        return False

    def join(self, seconds: float) -> bool:
        """Wait until the worker has ended; whether it has."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def kill(self) -> None:
        """A thread cannot be killed; what it sends from now on is not heard, as if it had died."""
        if not self._has_ended:
            self._has_ended = True
            self._receive(None)


class ProcessWorker:
    """A worker in a process of its own; where that dies, `receive` is called with None.

    The process gets no SIGTERM and no SIGINT, which may be sent to all processes of a server: it ends when it is told
    to, or when the server is gone.
    """

    def __init__(self, device: str, receive: Callable[[Message | None], None], workers: int = 1) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, other = context.Pipe()
        threads = max(1, available_cores() // workers)
        given = (other, device, threads, plugin_places())
        self.process = context.Process(target=_process_main, args=given, daemon=True)
        resource_tracker.ensure_running()  # it would unblock the signals again
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})  # a process inherits them
        try:
            self.process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        other.close()
        self._receive, self._lock = receive, threading.Lock()
        self._unsent: deque[bytes] = deque()
        self._writable = select.poll()
        self._writable.register(self._connection.fileno(), select.POLLOUT)
        self._heard_at, self._owner = time.monotonic(), os.getpid()
        _processes.add(self)
        threading.Thread(target=self._read, daemon=True).start()

    @property
    def pid(self) -> int | None:
        """The process."""
        return self.process.pid

    @property
    def silent_seconds(self) -> float:
        """How long the process has given no sign of life."""
        return time.monotonic() - self._heard_at

    def is_stopped(self) -> bool:
        """Whether a signal such as SIGSTOP holds the process; False where the system cannot tell."""
        if not hasattr(os, "waitid") or self.pid is None:
            return False
        with contextlib.suppress(OSError):
            return os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT) is not None
        return False

    def _read(self) -> None:
        while True:
            try:
                message = self._connection.recv()
            except (EOFError, OSError):
                self._receive(None)
                return
            self._heard_at = time.monotonic()
            if message != BEAT:
                self._receive(message)

    def send(self, message: Message) -> None:
        """Give the worker a message; `receive` reports one that is dead, and one that does not read blocks nobody."""
        data = bytes(ForkingPickler.dumps(message))
        with self._lock:
            if not self._unsent and len(data) <= DIRECT_BYTES and self._writable.poll(0):
                with contextlib.suppress(OSError):
                    self._connection.send_bytes(data)
                return
            self._unsent.append(data)
            if len(self._unsent) == 1:
                threading.Thread(target=self._write, daemon=True).start()

    def _write(self) -> None:
        """Write what `send` left, in a thread that may wait for the worker to read."""
        while True:
            try:
                self._connection.send_bytes(self._unsent[0])
            except OSError:
                return
            with self._lock:
                self._unsent.popleft()
                if not self._unsent:
                    return

    def join(self, seconds: float) -> bool:
        """Wait until the process has ended; whether it has."""
        self.process.join(seconds)
        return not self.process.is_alive()

    def kill(self) -> None:
        """End the process now, also one that was stopped."""
        if self._owner == os.getpid():  # and not in a copy of the server that was forked
            self.process.kill()


BEAT: Message = ("beat",)
_processes: weakref.WeakSet[ProcessWorker] = weakref.WeakSet()


@atexit.register
def _kill_all() -> None:
    """End the workers before `multiprocessing` waits for them, which have no SIGTERM."""
    for worker in list(_processes):
        worker.kill()


def _process_main(connection: Any, device: str, threads: int, plugins: list[str]) -> None:
    """The main function of a worker process."""
    os.environ.setdefault("OMP_NUM_THREADS", str(threads))  # before torch is loaded
    for number in (signal.SIGINT, signal.SIGTERM):  # they are blocked, too, since before this line
        signal.signal(number, signal.SIG_IGN)
    warnings.simplefilter("ignore")  # a warning may quote the text of a request
    loop = WorkerLoop(connection.send, device, prepare=True)

    def read() -> None:
        while True:
            try:
                loop.put(connection.recv())
            except (EOFError, OSError):  # the server is gone, and nobody reads results
                os._exit(0)

    def beat() -> None:
        with contextlib.suppress(OSError):
            while True:
                loop.send(BEAT)
                time.sleep(BEAT_SECONDS)

    for function in (beat, read):
        threading.Thread(target=function, daemon=True).start()
    import_plugins(plugins)
    with contextlib.suppress(BrokenPipeError):
        loop.run()
