"""The grader's process: compares LaTeX answers with math-verify. Run as a file; nothing else imports it.

Protocol over one connection (file descriptor in argv): first ("ready", None) or ("broken", reason); then for each
request (comparisons, seconds) one reply (correct, error, retire). It limits its own memory and lifetime, so that a
hopeless expression can neither fill the machine nor outlive a parent that was killed.
"""

import contextlib
import logging
import math
import os
import signal
import sys

MEMORY_BYTES = 4 << 30


class UnreadableGold(ValueError):
    """The gold answer is no expression, so that no answer could ever equal it."""


def main(descriptor: int) -> None:
    from multiprocessing.connection import Connection

    # a parent that is stopped from the keyboard closes the connection; the group's signal is not ours to answer
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    connection = Connection(descriptor)
    try:
        _limit_memory()
        _check()
    except Exception as error:
        connection.send(("broken", f"{type(error).__name__}: {error}"))
        return
    connection.send(("ready", None))
    while True:
        try:
            comparisons, seconds = connection.recv()
        except (EOFError, OSError):
            return
        # the parent kills at `seconds`; this alarm, whose default action is to end the process, acts if it cannot
        signal.alarm(math.ceil(seconds) + 2)
        reply = _grade(comparisons)
        signal.alarm(0)
        try:
            connection.send(reply)
        except OSError:
            return
        if reply[2]:
            return


def _grade(comparisons: list[tuple[str, str, int]]) -> tuple[bool, str | None, bool]:
    """(one comparison holds, what went wrong in a comparison, this process should be replaced)."""
    failure = None
    for gold, answer, float_rounding in comparisons:
        try:
            if _equal(gold, answer, float_rounding):
                return True, None, False
        except (MemoryError, RecursionError) as error:
            return False, type(error).__name__, True
        except Exception as error:
            # not the message: formatting a huge expression can itself take forever
            failure = f"{type(error).__name__} while comparing"
    return False, failure, False


def _equal(gold: str, answer: str, float_rounding: int) -> bool:
    from math_verify import parse, verify

    # no time limit inside: theirs is a signal; ours is the parent's, who ends this process
    parsed_gold = parse(f"\\boxed{{{gold}}}", parsing_timeout=None, raise_on_error=True)
    parsed_answer = parse(f"\\boxed{{{answer}}}", parsing_timeout=None, raise_on_error=True)
    if not parsed_gold:
        raise UnreadableGold
    return verify(parsed_gold, parsed_answer, float_rounding=float_rounding, timeout_seconds=None, raise_on_error=True)


def _limit_memory() -> None:
    with contextlib.suppress(ImportError, ValueError, OSError):  # not every system has this limit
        import resource

        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        soft = MEMORY_BYTES if hard == resource.RLIM_INFINITY else min(MEMORY_BYTES, hard)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _check() -> None:
    """A grader that cannot tell 1/2 from 1/3 (a wrong antlr, say) must be known before it scores a run with zeros."""
    logging.getLogger("math_verify").setLevel(logging.ERROR)
    if not _equal(r"\frac{1}{2}", "0.5", 6) or _equal(r"\frac{1}{2}", r"\frac{1}{3}", 6):
        raise RuntimeError("math-verify fails its self-test; check that antlr4-python3-runtime is one that it supports")


if __name__ == "__main__":
    sys.path[:] = [entry for entry in sys.path if entry != os.path.dirname(os.path.abspath(__file__))]
    main(int(sys.argv[1]))
