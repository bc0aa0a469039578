"""Processes that compare math answers, with a time limit that ends the process.

sympy can hang inside one C call (`9^{9^{9^9}}`), where neither a thread nor an exception reaches it, and a limit by
signal works on a main thread only. So the comparison runs in a process of its own that is killed at its limit and
replaced; the others go on.
"""

import atexit
import logging
import multiprocessing
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

logger = logging.getLogger(__name__)

WORKER_FILE = Path(__file__).with_name("grader_worker.py")
START_SECONDS = 120.0  # imports take half a second; on a loaded network file system much more


class GraderUnavailable(RuntimeError):
    """The grader's process cannot start: scoring goes on for no answer, so this is not counted but raised."""


@dataclass(frozen=True)
class Grade:
    """Outcome of one comparison. `timeout` and `error` say that it was not decided (and then `correct` is False)."""

    correct: bool
    timeout: bool = False
    error: str | None = None


class GraderPool:
    """Up to `size` worker processes, each started when first needed.

    `submit` may be called from any thread or event loop. The limit counts from when a process takes the comparison up,
    not the time in the queue.
    """

    def __init__(self, size: int, seconds: float):
        if size < 1 or seconds <= 0:
            raise ValueError(f"a grader pool needs size >= 1 and seconds > 0, got {size} and {seconds}")
        self.size, self.seconds = size, seconds
        self._threads = ThreadPoolExecutor(size, thread_name_prefix="math-grader")
        self._local = threading.local()  # each thread owns one process
        self._lock = threading.Lock()
        self._workers: set[_Worker] = set()
        self._closed = False
        self._undecided = 0

    def submit(self, comparisons: Sequence[tuple[str, str, int]]) -> "Future[Grade]":
        """Whether one of the comparisons holds: (gold LaTeX, answer LaTeX, decimal places at which floats are equal).

        The future raises GraderUnavailable if no process can be started.
        """
        return self._threads.submit(self._grade, [tuple(item) for item in comparisons])

    def close(self) -> None:
        """Ends the processes, also those at work. What they were comparing, and what was queued, is not decided."""
        with self._lock:
            self._closed = True
            workers = list(self._workers)
        self._threads.shutdown(wait=False, cancel_futures=True)
        for worker in workers:
            worker.process.kill()  # the thread that waits for it notices and cleans up

    def _grade(self, comparisons: list[tuple[str, str, int]]) -> Grade:
        request = (comparisons, self.seconds)
        worker = getattr(self._local, "worker", None)
        if worker is None or not worker.send(request):  # one that died while idle is replaced, its next job not lost
            if worker is not None:
                self._discard(worker)
            worker = self._start()
            worker.send(request)
        grade, usable = worker.receive(self.seconds)
        if not usable:
            self._discard(worker)
        if grade.timeout or grade.error:
            self._report(grade, comparisons)
        return grade

    def _start(self) -> "_Worker":
        worker = _Worker()
        with self._lock:
            self._workers.add(worker)
            closed = self._closed
        if closed:
            self._discard(worker)
            raise GraderUnavailable("the grader pool is closed")
        self._local.worker = worker
        return worker

    def _discard(self, worker: "_Worker") -> None:
        self._local.worker = None
        with self._lock:
            self._workers.discard(worker)
        worker.kill()

    def _report(self, grade: Grade, comparisons: list[tuple[str, str, int]]) -> None:
        with self._lock:
            self._undecided += 1
            count = self._undecided
        if count & (count - 1) == 0:  # the 1st, 2nd, 4th, 8th, ...
            what = f"not decided within {self.seconds:g} s" if grade.timeout else f"failed ({grade.error})"
            gold, answer, _ = comparisons[0]
            logger.warning("math answer %.80r against %.80r: %s; %d such so far", answer, gold, what, count)


class _Worker:
    """One process and the connection to it; used by one thread."""

    def __init__(self):
        # not multiprocessing.Process: spawn would import the parent's main module, and with it torch, Ray and verl
        self._connection, theirs = multiprocessing.Pipe()
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, str(WORKER_FILE), str(theirs.fileno())],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )
        try:
            in_time = self._connection.poll(START_SECONDS)
            state, reason = self._connection.recv() if in_time else ("broken", f"no sign within {START_SECONDS:g} s")
        except (EOFError, OSError):
            state, reason = "broken", f"it ended with exit code {self.process.wait()}"
        if state != "ready":
            self.kill()
            raise GraderUnavailable(
                f"the math grader ({sys.executable} {WORKER_FILE}) does not start: {reason}. "
                'It needs math-verify: pip install "verl-srpo[math]"'
            )

    def send(self, request: tuple) -> bool:
        """False if the process is gone."""
        try:
            self._connection.send(request)
        except OSError:
            return False
        return True

    def receive(self, seconds: float) -> tuple[Grade, bool]:
        """The grade, and whether this process can be used again."""
        try:
            if not self._connection.poll(seconds):
                return Grade(False, timeout=True), False
            correct, error, retire = self._connection.recv()
        except (EOFError, OSError):
            return Grade(False, error=f"the grader's process ended with exit code {self.process.wait()}"), False
        return Grade(correct, error=error), not retire

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self._connection.close()


_pools: dict[tuple[int, float], GraderPool] = {}
_pools_lock = threading.Lock()


def shared_pool(size: int | None = None, seconds: float = 10.0) -> GraderPool:
    """This process's pool of that size (default: 2 to 4, by the number of cores) and time limit."""
    key = (size if size is not None else max(2, min(4, (os.cpu_count() or 1) // 4)), float(seconds))
    with _pools_lock:
        if key not in _pools:
            _pools[key] = GraderPool(*key)
        return _pools[key]


def _close_all() -> None:
    for pool in list(_pools.values()):
        pool.close()


def _forget() -> None:
    """A forked child has none of the threads: its first comparison starts a pool of its own."""
    global _pools_lock
    _pools_lock = threading.Lock()
    _pools.clear()


atexit.register(_close_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
