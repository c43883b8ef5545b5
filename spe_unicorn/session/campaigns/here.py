"""Runs jobs on this host, several at a time."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from spe_unicorn.session.campaigns.jobs import Job, Row
from spe_unicorn.session.campaigns.processes import StoppedError, Watched
from spe_unicorn.session.campaigns.store import Store


class Workers:
    """Processes that run jobs, and stay for more of them until :meth:`close`."""

    def __init__(self, processes: int) -> None:
        self._watched = [Watched() for _ in range(processes)]

    @property
    def workers(self) -> int:
        """The number of processes."""
        return len(self._watched)

    def run(self, jobs: list[Job], store: Store) -> Iterator[tuple[Job, Row]]:
        """Run jobs, one a process at a time, and yield each with its row when the row is saved.

        If the caller stops iterating, the runs that are under way are ended and leave nothing; the
        processes are ended then. Raises OSError if the store cannot be written.
        """
        waiting: queue.SimpleQueue[Job] = queue.SimpleQueue()
        for job in jobs:
            waiting.put(job)
        done: queue.SimpleQueue[tuple[Job, Row] | BaseException] = queue.SimpleQueue()
        threads = [
            threading.Thread(target=_work, args=(one, waiting, store, done), daemon=True)
            for one in self._watched[: len(jobs)]
        ]
        for thread in threads:
            thread.start()
        whole = False
        try:
            for _ in jobs:
                found = _next(done)
                if isinstance(found, BaseException):
                    raise found
                yield found
            whole = True
        finally:
            if not whole:
                self._stop()
            for thread in threads:
                thread.join()
            if not whole:
                self.close()

    def close(self) -> None:
        """End the processes."""
        self._stop()
        for one in self._watched:
            one.close()

    def _stop(self) -> None:
        for one in self._watched:
            one.stop()


def run_here(jobs: list[Job], store: Store, processes: int) -> Iterator[tuple[Job, Row]]:
    """Run jobs, ``processes`` at a time, as :meth:`Workers.run` does, and end the processes."""
    workers = Workers(min(processes, len(jobs)))
    try:
        yield from workers.run(jobs, store)
    finally:
        workers.close()


def _next(
    done: queue.SimpleQueue[tuple[Job, Row] | BaseException],
) -> tuple[Job, Row] | BaseException:
    """The next saved job, or an error. Waiting is in short pieces, so that signals are handled."""
    while True:
        with suppress(queue.Empty):
            return done.get(timeout=0.2)


def _work(
    watched: Watched,
    waiting: queue.SimpleQueue[Job],
    store: Store,
    done: queue.SimpleQueue[tuple[Job, Row] | BaseException],
) -> None:
    """A thread: run jobs until none waits, or until the run is stopped."""
    try:
        while True:
            job = waiting.get_nowait()
            with store.new() as folder:
                watched.run(job, _absolute(store.files), _absolute(folder))
                done.put((job, store.save(job, folder)))
    except (queue.Empty, StoppedError):
        pass
    except BaseException as error:  # Workers.run raises it
        done.put(error)


def _absolute(path: Path) -> Path:
    return path.absolute()
