"""Says the first failures of each kind aloud; counters tell how many there were."""

from __future__ import annotations

import logging
from collections import Counter

logger = logging.getLogger(__name__)

ALOUD = 3
"""Failures of one kind that a process logs as warnings; further ones are logged at DEBUG."""

_counts: Counter[str] = Counter()


def log_failure(kind: str, message: str, error: BaseException | None = None) -> None:
    """Log one failure.

    Args:
        kind: what counts as the same, for example a reason.
        error: its traceback is logged too.
    """
    _counts[kind] += 1
    aloud = _counts[kind] <= ALOUD
    last = f" (further failures of the kind {kind!r} are counted, not logged)" if _counts[kind] == ALOUD else ""
    logger.log(logging.WARNING if aloud else logging.DEBUG, "%s%s", message, last, exc_info=error)


def forget() -> None:
    """Start counting anew."""
    _counts.clear()
