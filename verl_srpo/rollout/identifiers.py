"""Identifiers that every worker computes alike, without a counter that they would have to share."""

from __future__ import annotations

import hashlib


def _identifier(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def set_identifier(uid: str, session_id: int, event_index: int) -> int:
    """`set_id` of an event: 63 bits, not negative; `uid` makes it unique over the run."""
    return _identifier(f"{uid}/{session_id}/event/{event_index}")


def state_identifier(uid: str, session_id: int, events_consumed: int) -> int:
    """`state_id` of the state in which an episode has consumed so many events."""
    return _identifier(f"{uid}/{session_id}/state/{events_consumed}")
