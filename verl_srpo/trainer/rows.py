"""Set tags of a batch's rows: read from TransferQueue, checked, and turned into what the core works with."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import transfer_queue as tq
from transfer_queue import KVBatchMeta

INT_COLUMNS = (
    "set_id",
    "state_id",
    "member_index",
    "set_size",
    "event_index",
    "agent_id",
    "num_events",
    "invalid",
    "truncated",
    "tagged",
)
FLOAT_COLUMNS = ("event_reward", "outcome_reward", "event_return", "episode_return")
DRIVER_COLUMNS = frozenset({*INT_COLUMNS, *FLOAT_COLUMNS} - {"set_id"})  # no worker needs these


@dataclass
class Rows:
    """Tags of N rows, one numpy array (N,) a column; `episode` and `task` number the episodes and tasks from 0."""

    set_id: np.ndarray
    state_id: np.ndarray
    member_index: np.ndarray
    set_size: np.ndarray
    event_index: np.ndarray
    agent_id: np.ndarray
    num_events: np.ndarray
    invalid: np.ndarray
    truncated: np.ndarray
    tagged: np.ndarray
    event_reward: np.ndarray
    outcome_reward: np.ndarray
    event_return: np.ndarray
    episode_return: np.ndarray
    episode: np.ndarray
    task: np.ndarray

    def __len__(self) -> int:
        return len(self.set_id)

    def take(self, order: np.ndarray) -> Rows:
        """Rows in the given order; -1 stands for a padding row: set -1 - position, everything else 0."""
        padding = order < 0
        columns = {f.name: np.where(padding, 0, getattr(self, f.name)[order]) for f in fields(self)}
        columns["set_id"] = np.where(padding, -1 - np.arange(len(order)), columns["set_id"])
        return Rows(**columns)


def _number(names: list[str]) -> np.ndarray:
    return np.unique(np.array(names), return_inverse=True)[1].astype(np.int64)


def read_rows(batch: KVBatchMeta) -> Rows:
    """Reads every tag column of a batch of real rows (no padding yet).

    Keys are `{uid}_{session}_{index}`: the session is the episode, the uid the task. Raises ValueError when a column is
    missing (TransferQueue leaves a column out for all rows if one row lacks it) and names rows that lack it.
    """
    columns = [*INT_COLUMNS, *FLOAT_COLUMNS]
    data = tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=columns)
    missing = [c for c in columns if c not in data]
    if missing:
        lacking = [key for key in batch.keys if not _has_column(key, batch.partition_id, missing[0])]
        raise ValueError(
            f"{len(lacking)} of {len(batch.keys)} rows lack the columns {missing}: {lacking[:5]}. Rows get them from "
            "the agent loop workers of verl_srpo; something else wrote these rows into TransferQueue"
        )
    values = {c: np.asarray(data[c].tolist(), dtype=np.int64) for c in INT_COLUMNS}
    values |= {c: np.asarray(data[c].tolist(), dtype=np.float64) for c in FLOAT_COLUMNS}
    return Rows(
        **values,
        episode=_number([key.rsplit("_", 1)[0] for key in batch.keys]),
        task=_number([key.rsplit("_", 2)[0] for key in batch.keys]),
    )


def _has_column(key: str, partition_id: str, column: str) -> bool:
    return column in tq.kv_batch_get(keys=[key], partition_id=partition_id, select_fields=[column])


def _first_of(set_index: np.ndarray, count: int) -> np.ndarray:
    first = np.full(count, len(set_index), dtype=np.int64)
    np.minimum.at(first, set_index, np.arange(len(set_index)))
    return first


def complete_rows(rows: Rows, keys: list[str]) -> np.ndarray:
    """Checks what members of a set must share, and says which rows belong to a complete set.

    Returns:
        (N,) bool: False on rows of sets with fewer rows than their `set_size` (incomplete: removed, never shrunk).

    Raises ValueError naming the set and rows when some rows have tags and others do not, when members disagree on
    state, event, size, episode or rewards, or when a set has too many rows or a member twice.
    """
    tagged = rows.tagged.astype(bool)
    if tagged.any() and not tagged.all():
        without = [keys[i] for i in np.flatnonzero(~tagged)[:5]]
        raise ValueError(
            f"{int((~tagged).sum())} of {len(rows)} rows have no set tags ({', '.join(without)}, ...) while the others "
            "have. Does the dataset's column agent_name send some tasks to another agent loop? Let all tasks use the "
            "workflow, or set srpo.workflow=null so that every row is a set of its own"
        )
    _, set_index, counts = np.unique(rows.set_id, return_inverse=True, return_counts=True)
    first = _first_of(set_index, len(counts))[set_index]
    for column in ("state_id", "event_index", "set_size", "episode", "event_reward", "event_return", "episode_return"):
        values = getattr(rows, column)
        differs = np.flatnonzero(values != values[first])
        if len(differs):
            i = differs[0]
            raise ValueError(
                f"members of set {rows.set_id[i]} disagree on {column}: row {keys[first[i]]} has {values[first[i]]}, "
                f"row {keys[i]} has {values[i]}; outputs of one event share all of it"
            )
    have = counts[set_index]
    order = np.lexsort((rows.member_index, set_index))
    twice = (np.diff(set_index[order]) == 0) & (np.diff(rows.member_index[order]) == 0)
    outside = (rows.member_index < 0) | (rows.member_index >= rows.set_size) | (have > rows.set_size)
    wrong = order[1:][twice] if twice.any() else np.flatnonzero(outside)
    if len(wrong):
        i = wrong[0]
        raise ValueError(
            f"set {rows.set_id[i]} has {have[i]} rows for set_size={rows.set_size[i]}; row {keys[i]} with "
            f"member_index={rows.member_index[i]} does not fit (members are numbered 0 to set_size-1, each once)"
        )
    return have == rows.set_size


def apart(rows: Rows) -> Rows:
    """Every row as a set of its own (`srpo.active_set=output`): events keep their index, rewards and returns."""
    columns = {f.name: getattr(rows, f.name) for f in fields(rows)}
    live = rows.set_id >= 0
    own = np.unique(np.stack([rows.set_id, rows.member_index]), axis=1, return_inverse=True)[1].reshape(-1)
    columns["set_id"] = np.where(live, own, rows.set_id)
    columns["member_index"] = np.zeros_like(rows.member_index)
    columns["set_size"] = np.ones_like(rows.set_size)
    return Rows(**columns)
