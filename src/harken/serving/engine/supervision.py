"""The workers of an engine: started, loaded with models, watched, and replaced where they die or hang.

A worker hangs where it gives no sign of life, or goes on with something that was cancelled; then it is killed. A worker
that dies is replaced at once, one that dies again and again ever later. What it was given goes back to the engine.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from harken.serving.engine.slots import Slot
from harken.serving.engine.worker import Message, ProcessWorker, ThreadWorker
from harken.serving.metrics import Metrics
from harken.serving.settings import ServerSettings

log = logging.getLogger("harken.serving")
MAX_DEATHS = 5  # deaths of a worker in a row, before it has done anything; past it nobody waits for its successor
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 10.0  # seconds until a worker is replaced: twice as long after every death in a row
RELOAD_SECONDS = 2.0  # until a folder that could not be loaded is tried again
TICK_SECONDS = 0.25


class Listener(Protocol):
    """Who uses the workers."""

    def on_message(self, slot: Slot, message: Message) -> None:
        """A worker has answered: a result, an error, an event or an end."""

    def on_death(self, slot: Slot) -> None:
        """A worker is gone; what it was given is still in its slot."""

    def on_change(self) -> None:
        """Something has changed: a worker is there, is gone, or a moment has passed."""


class Supervisor:
    """Keeps the workers of a server alive.

    Args:
        folders: the folder of every model, by its name.
    """

    def __init__(
        self, folders: Mapping[str, Path], settings: ServerSettings, metrics: Metrics, listener: Listener
    ) -> None:
        self.folders, self.settings, self.metrics, self.listener = dict(folders), settings, metrics, listener
        self.slots = [Slot(number, settings.heartbeat) for number in range(max(1, settings.workers))]
        self.facts: dict[str, dict[str, Any]] = {}  # what workers tell of every model
        self.has_loaded = asyncio.Event()  # once: a worker has every model, or `problem` says why none will
        self._is_stopping = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._watcher: asyncio.Task[None] | None = None
        metrics.watch_workers(lambda: {slot.number: slot.worker.pid for slot in self.slots if slot.worker is not None})

    def start(self) -> None:
        """Start all workers."""
        self._loop = asyncio.get_running_loop()
        for slot in self.slots:
            self._start_worker(slot)
        self._watcher = asyncio.create_task(self._watch())

    async def stop(self) -> None:
        """Tell all workers to end, and kill those that do not."""
        self._is_stopping = True
        if self._watcher is not None:
            self._watcher.cancel()
        workers = [slot.worker for slot in self.slots if slot.worker is not None]
        for slot in self.slots:
            slot.generation += 1  # what it says from now on is not heard
        for worker in workers:
            worker.send(("stop",))
        ended = await asyncio.gather(*(asyncio.to_thread(worker.join, 5.0) for worker in workers))
        for worker, has_ended in zip(workers, ended, strict=True):
            if not has_ended:
                worker.kill()

    def reload(self, name: str, folder: Path) -> None:
        """Load a folder that has changed; requests go on with the old model until the new one is there."""
        self.folders[name] = folder
        for slot in self.slots:
            slot.refused.pop(name, None)
            if slot.worker is not None:
                slot.worker.send(("load", name, str(folder)))

    @property
    def is_live(self) -> bool:
        """Whether the workers are watched over."""
        return self._watcher is not None and not self._watcher.done()

    @property
    def is_ready(self) -> bool:
        """Whether every model can be asked now."""
        return not self._is_stopping and all(self.slots_of(name) for name in self.folders)

    def slots_of(self, model: str) -> list[Slot]:
        """The slots whose workers have a model and can be given work now."""
        return [
            slot
            for slot in self.slots
            if model in slot.loaded and slot.has_settled(self.folders) and slot.is_responsive()
        ]

    def problem(self, model: str | None = None) -> str | None:
        """Why no worker will have a model soon, or any model; None: one has it, or is being started."""
        reason = None
        for slot in self.slots:
            reason = slot.problem(self.folders if model is None else [model])
            if reason is None:
                return None
        return reason

    # ---- life of a worker --------------------------------------------------------------------------------------------

    def _start_worker(self, slot: Slot) -> None:
        if self._is_stopping:
            return
        slot.generation += 1
        generation, loop = slot.generation, self._loop
        assert loop is not None

        def receive(message: Message | None) -> None:
            with contextlib.suppress(RuntimeError):  # the event loop is closed
                loop.call_soon_threadsafe(self._receive, slot, generation, message)

        kind: Callable[..., ProcessWorker | ThreadWorker] = ProcessWorker if self.settings.workers else ThreadWorker
        slot.loaded, slot.refused, slot.started_at, slot.is_given_up = set(), {}, time.monotonic(), False
        slot.is_stopped = False
        slot.worker = kind(self.settings.device, receive, len(self.slots))
        for name, folder in self.folders.items():
            slot.worker.send(("load", name, str(folder)))

    def _receive(self, slot: Slot, generation: int, message: Message | None) -> None:
        if generation != slot.generation:
            return  # of a worker that was replaced
        if message is None:
            self._replace_worker(slot)
        elif message[0] == "loaded":
            self._on_loaded(slot, *message[1:])
        elif message[0] == "refused":
            self._on_refused(slot, *message[1:])
        else:
            self.listener.on_message(slot, message)
        self.listener.on_change()

    def _on_loaded(self, slot: Slot, name: str, facts: dict[str, Any]) -> None:
        if name in slot.loaded:
            log.info("worker %d has loaded %s again", slot.number, name)
            self.metrics.count("reloads")
        slot.loaded.add(name)
        slot.refused.pop(name, None)
        self.facts[name] = facts
        if slot.has_settled(self.folders):
            slot.is_failing = False
            slot.loading_seconds = slot.loading_seconds or time.monotonic() - slot.started_at
        if slot.loaded >= self.folders.keys():
            self.has_loaded.set()

    def _on_refused(self, slot: Slot, name: str, reason: str) -> None:
        if name in slot.loaded:
            log.warning("%s has changed and cannot be loaded, the old model is kept: %s", name, reason)
            return
        slot.refused[name] = reason
        if not self.has_loaded.is_set():
            self.has_loaded.set()
            return
        log.warning("worker %d cannot load %s, and tries again: %s", slot.number, name, reason)
        assert self._loop is not None
        self._loop.call_later(RELOAD_SECONDS, self._load_again, slot, slot.generation, name)

    def _load_again(self, slot: Slot, generation: int, name: str) -> None:
        if slot.generation == generation and slot.worker is not None and name not in slot.loaded:
            slot.worker.send(("load", name, str(self.folders[name])))

    def _replace_worker(self, slot: Slot) -> None:
        slot.worker, slot.loaded, slot.refused = None, set(), {}
        slot.deaths += not slot.is_given_up
        slot.is_failing = slot.is_failing or slot.deaths > MAX_DEATHS
        self.listener.on_death(slot)
        self.metrics.restart(slot.number)
        pause = min(FIRST_PAUSE * 2 ** max(0, slot.deaths - 1), LONGEST_PAUSE)
        log.warning("worker %d died; another is started in %.1f s", slot.number, pause)
        if self.problem():
            self.has_loaded.set()
        assert self._loop is not None
        self._loop.call_later(pause, self._start_worker, slot)

    async def _watch(self) -> None:
        """Kill workers that hang; one that was not heard while this process itself stood still is waited for."""
        while True:
            before = time.monotonic()
            await asyncio.sleep(TICK_SECONDS)
            if time.monotonic() - before < 4 * TICK_SECONDS:
                for slot in self.slots:
                    self._kill_if_hanging(slot)
            self.listener.on_change()

    def _kill_if_hanging(self, slot: Slot) -> None:
        if slot.worker is None:
            return
        if slot.is_silent(self.folders):
            log.warning("worker %d gives no sign of life; it is killed", slot.number)
            slot.is_stopped = slot.worker.is_stopped()
        elif slot.is_stuck():
            log.warning("worker %d goes on with what was cancelled; it is killed", slot.number)
            slot.is_given_up = True
        else:
            return
        slot.worker.kill()
