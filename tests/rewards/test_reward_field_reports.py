"""Field reports on grading: signals off the main thread, answers that hang, bursts that block."""

import asyncio
import logging
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from verl_srpo.rewards import compute_score, compute_score_async, grader_pool, score
from verl_srpo.rewards.grader_pool import GraderPool, GraderUnavailable

RIGHT = ("math", r"\boxed{\sqrt{12}}", r"2\sqrt{3}")
WRONG = ("math", r"\boxed{\sqrt{13}}", r"2\sqrt{3}")
DEGENERATE = ("math", r"\boxed{9^{9^{9^9}}}", "7")
HANGING = [("7", "9^{9^{9^9}}", 6)]
EQUAL = [(r"2\sqrt{3}", r"\sqrt{12}", 6)]


@pytest.fixture
def pool(monkeypatch):
    """A pool of this test's own behind compute_score, with a limit that only a hanging answer reaches."""
    pools = []

    def make(size=2, seconds=1.0):
        pools.append(GraderPool(size, seconds))
        monkeypatch.setattr(score, "shared_pool", lambda **limits: pools[-1])
        return pools[-1]

    yield make
    for made in pools:
        made.close()


def test_field_report_14_scores_in_threads_without_signals(pool):
    """math-verify's own limit is a signal, which fails off the main thread; every score was then 0, silently."""
    pool(seconds=60.0)
    before = signal.getsignal(signal.SIGALRM)
    with ThreadPoolExecutor(8) as threads:
        results = list(threads.map(lambda case: compute_score(*case), [RIGHT, WRONG] * 20))
    assert [result["score"] for result in results] == [1.0, 0.0] * 20
    assert not any(result["grader_error"] or result["grader_timeout"] for result in results)
    assert signal.getsignal(signal.SIGALRM) is before


@pytest.mark.parametrize(
    "module", ["raise ImportError('antlr is too old')", "def parse(*a, **k): return []\nverify = parse"]
)
def test_field_report_14_a_broken_grader_is_an_error_not_a_zero(pool, monkeypatch, tmp_path, module):
    (tmp_path / "math_verify.py").write_text(module)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    pool()
    with pytest.raises(GraderUnavailable, match=r"does not start.*verl-srpo\[math\]"):
        compute_score(*RIGHT)


def test_field_report_15_a_degenerate_answer_is_killed_and_counted(pool, caplog):
    made = pool()
    with caplog.at_level(logging.WARNING, logger=grader_pool.__name__):
        result = compute_score(*DEGENERATE)
    assert (result["score"], result["grader_timeout"], result["grader_error"]) == (0.0, 1.0, 0.0)
    assert "not decided within 1 s" in caplog.text
    assert not made._workers  # its process is gone, and is replaced for the next answer
    assert compute_score(*RIGHT)["score"] == 1.0
    assert compute_score(*WRONG)["grader_timeout"] == 0.0


def test_field_report_15_the_others_are_not_affected(pool):
    made = pool(size=2, seconds=2.0)
    hanging = [made.submit(HANGING) for _ in range(2)]
    others = [made.submit(EQUAL) for _ in range(30)]
    assert all(future.result().timeout for future in hanging)
    grades = [future.result() for future in others]
    assert all(grade.correct and not grade.timeout and grade.error is None for grade in grades)


def test_field_report_15_a_worker_ends_itself_when_its_parent_cannot(pool):
    """The limit that the worker sets for itself: its parent only looks much later."""
    made = pool(size=1, seconds=60.0)
    assert made.submit(EQUAL).result().correct
    (worker,) = made._workers
    worker.send((HANGING, 0.5))
    assert worker.process.wait(timeout=60) == -signal.SIGALRM


async def test_field_report_29_a_burst_does_not_block_the_event_loop(pool):
    """While an answer hangs in the grader, the loop scores others; a blocked loop would never get there."""
    made = pool(size=2, seconds=600.0)
    hanging = asyncio.create_task(compute_score_async(*DEGENERATE))
    results = await asyncio.gather(*(compute_score_async(*case) for case in [RIGHT, WRONG] * 100))
    assert [result["score"] for result in results] == [1.0, 0.0] * 100
    assert not hanging.done()
    made.close()
    assert (await hanging)["grader_error"] == 1.0


def test_a_process_that_died_while_idle_is_replaced_without_loss(pool):
    made = pool(size=1, seconds=60.0)
    assert made.submit(EQUAL).result().correct
    (worker,) = made._workers
    worker.process.kill()
    worker.process.wait()
    grade = made.submit(EQUAL).result()
    assert grade.correct and grade.error is None


def test_a_process_that_dies_at_work_is_counted_as_an_error(pool):
    made = pool(size=1, seconds=600.0)
    made.submit(EQUAL).result()
    (worker,) = made._workers
    future = made.submit(HANGING)
    worker.process.kill()
    grade = future.result()
    assert (grade.correct, grade.timeout) == (False, False)
    assert "exit code -9" in grade.error
    assert made.submit(EQUAL).result().correct


def test_the_grader_imports_nothing_of_the_caller(pool, monkeypatch, tmp_path):
    """Neither the trainer's libraries nor a file in the working directory: it starts fast and is not shadowed."""
    (tmp_path / "math_verify.py").write_text("raise ImportError('shadowed')")
    monkeypatch.chdir(tmp_path)
    made = pool(size=1, seconds=60.0)
    assert made.submit(EQUAL).result().correct
    (worker,) = made._workers
    assert "torch" not in Path(f"/proc/{worker.process.pid}/maps").read_text()


def test_a_forked_child_gets_a_pool_of_its_own():
    assert compute_score(*RIGHT)["score"] == 1.0
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(write, b"%d" % compute_score(*RIGHT)["score"])
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    assert os.read(read, 1) == b"1"
    os.close(read)
    os.close(write)
