"""Runs jobs on the workers of a Dask cluster. The extra ``dask`` brings its library.

Each file is sent to a worker once. If a worker is lost, its jobs run on another.
"""

from __future__ import annotations

import os
import queue
import shutil
import tempfile
import zlib
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

from spe_unicorn.session.campaigns.jobs import FileOf, Job
from spe_unicorn.session.campaigns.processes import Watched
from spe_unicorn.session.campaigns.store import Store, put_file

_ATTEMPTS = 5
"""How often a job is handed out, in all, if its worker or its files are lost, or a worker's disk or
network fails."""
_SECONDS_TO_CONNECT = 20


class ClusterError(Exception):
    """The cluster cannot be used. The message is one line."""


class Cluster:
    """A connection to a scheduler of Dask.

    ``ours`` is the version of this package, which all workers must have. Raises ClusterError.
    """

    def __init__(self, address: str, ours: str) -> None:
        try:
            self._dask = import_module("distributed")
        except ImportError as error:
            raise ClusterError(
                "dask is not installed; pip install 'spe-unicorn[dask]' brings it"
            ) from error
        self._version = ours
        self.moved_to = 0
        """Bytes of files that were sent to workers."""
        self.moved_from = 0
        """Bytes of results that came back."""
        try:
            self._client = self._dask.Client(address, timeout=_SECONDS_TO_CONNECT)
        except (OSError, ValueError, TimeoutError) as error:
            said = " ".join(str(error).split()) or type(error).__name__
            raise ClusterError(f"{address}: {said}") from error
        self._check_workers(address)

    @property
    def workers(self) -> int:
        """The number of workers that the cluster has now."""
        return len(self._client.scheduler_info(n_workers=-1)["workers"])

    def close(self) -> None:
        """Disconnect from the cluster, which goes on."""
        self._client.close()

    def run(self, jobs: list[Job], store: Store) -> Iterator[tuple[Job, Any]]:
        """Run jobs, whose files ``store`` has kept. Yield each with its row when that is saved.

        Raises ClusterError, OSError.
        """
        attempts = dict.fromkeys((job.key for job in jobs), 0)
        files = self._scattered(jobs, store)
        futures = self._dask.as_completed()
        by_future: dict[str, tuple[Job, dict[FileOf, Any]]] = {}

        def hand_out(job: Job) -> None:
            attempts[job.key] += 1
            future = self._client.submit(
                run_on_worker,
                job.to_json(),
                [files[file] for file in job.files.values()],
                key=f"spe-unicorn-{job.key}-{os.getpid()}-{attempts[job.key]}",
                pure=False,
            )
            by_future[future.key] = job, files
            futures.add(future)

        try:
            for job in jobs:
                hand_out(job)
            for future in futures:
                job, its_files = by_future.pop(future.key)
                if future.status != "finished":
                    if not self._may_go_away(future):
                        raise ClusterError(f"a run failed on its worker: {_why(future)}")
                    if attempts[job.key] >= _ATTEMPTS:
                        raise ClusterError(f"a run was lost {_ATTEMPTS} times: {_why(future)}")
                    if its_files is files:  # maybe they were lost with a worker: send all once more
                        files = self._scattered(jobs, store)
                    hand_out(job)
                    continue
                packed = future.result()
                future.release()
                self.moved_from += sum(map(len, packed.values()))
                with store.new() as folder:
                    for name, data in packed.items():
                        (folder / name).write_bytes(zlib.decompress(data))
                    row = store.save(job, folder)
                yield job, row
        finally:
            self._client.cancel(list(futures.futures), force=True)

    def _may_go_away(self, future: Any) -> bool:
        """Whether a run may succeed elsewhere: it was lost, or something of its host failed."""
        return future.status != "error" or isinstance(
            future.exception(), (OSError, MemoryError, self._dask.KilledWorker)
        )

    def _scattered(self, jobs: list[Job], store: Store) -> dict[FileOf, Any]:
        """Send the kept files of jobs to all workers. Later workers get them from those."""
        result: dict[FileOf, Any] = {}
        for file in {file: None for job in jobs for file in job.files.values()}:
            content = store.kept(file).read_bytes()
            sent = (file.digest, file.name, content)
            (result[file],) = self._client.scatter([sent], broadcast=True)
            self.moved_to += len(content) * self.workers
        return result

    def _check_workers(self, address: str) -> None:
        try:
            self._client.wait_for_workers(1, timeout=_SECONDS_TO_CONNECT)
            found = self._client.run(version_here)
        except (OSError, TimeoutError) as error:
            self.close()
            raise ClusterError(f"{address}: no worker can be reached ({error})") from error
        except Exception as error:
            self.close()
            raise ClusterError(f"{address}: a worker has no spe-unicorn ({error})") from error
        for worker, theirs in found.items():
            if theirs != self._version:
                self.close()
                raise ClusterError(
                    f"{worker} has spe-unicorn {theirs}, and this is {self._version}"
                )


def _why(future: Any) -> str:
    error = future.exception() if future.status == "error" else None
    return f"{type(error).__name__}: {error}" if error is not None else str(future.status)


# What follows runs on workers.

_free: queue.SimpleQueue[Watched] = queue.SimpleQueue()
"""Processes of this worker that run no job now."""
_files: list[Path] = []
"""The folder for files that are sent here; an empty list before the first job."""


def version_here() -> str:
    """The version of the package on a worker."""
    return version("spe-unicorn")


def run_on_worker(data: dict[str, Any], files: list[tuple[str, str, bytes]]) -> dict[str, bytes]:
    """Run a job on this worker. Return the files that it has left, compressed."""
    job = Job.from_json(data)
    if not _files:
        _files.append(Path(tempfile.mkdtemp(prefix="spe-unicorn-files-")))
    for digest, name, content in files:
        put_file(_files[0], FileOf(digest, name), content, source=name)
    try:
        watched = _free.get_nowait()
    except queue.Empty:
        watched = Watched()
    folder = Path(tempfile.mkdtemp(prefix="spe-unicorn-run-"))
    try:
        watched.run(job, _files[0], folder)
        return {path.name: zlib.compress(path.read_bytes(), 1) for path in folder.iterdir()}
    finally:
        _free.put(watched)
        shutil.rmtree(folder, ignore_errors=True)
