"""The definitions written down as loops over sets, rows and tokens: slow, plain, and independent of the package."""

import math
from collections import Counter, defaultdict

import torch


def members_of(set_ids) -> dict[int, list[int]]:
    """Rows of each set, padding left out."""
    members = defaultdict(list)
    for row, set_id in enumerate(set_ids):
        if int(set_id) >= 0:
            members[int(set_id)].append(row)
    return dict(members)


def member_log_ratio(log_prob, old_log_prob, mask, row, member_norm):
    tokens = [t for t in range(log_prob.shape[1]) if mask[row, t]]
    total = sum((log_prob[row, t] - old_log_prob[row, t] for t in tokens), torch.zeros((), dtype=log_prob.dtype))
    return total / len(tokens) if member_norm == "mean" and tokens else total


def joint(member_ratios, cardinality_norm):
    size = len(member_ratios)
    divisor = {"sqrt": math.sqrt(size), "none": 1.0, "mean": size}[cardinality_norm]
    return sum(member_ratios) / divisor


def clipped(log_ratio, advantage, low, high):
    ratio = torch.exp(torch.clamp(log_ratio, -20.0, 20.0))
    return -torch.minimum(ratio * advantage, torch.clamp(ratio, 1 - low, 1 + high) * advantage)


def weights(set_ids, reduction, episode_ids=None, task_ids=None, lengths=None) -> dict[int, float]:
    """w_S by set."""
    members = members_of(set_ids)
    if reduction == "event_mean":
        raw = dict.fromkeys(members, 1.0)
    elif reduction == "token_mean":
        raw = {s: float(sum(int(lengths[row]) for row in rows)) for s, rows in members.items()}
    else:
        owners = task_ids if reduction == "task_mean" else episode_ids
        owner = {s: int(owners[rows[0]]) for s, rows in members.items()}
        sets = Counter(owner.values())
        raw = {s: 1.0 / sets[owner[s]] for s in members}
    total = sum(raw.values())
    return {s: w / total if total else 0.0 for s, w in raw.items()}


def loss(
    log_prob,
    old_log_prob,
    mask,
    set_ids,
    advantages,
    set_weights=None,
    *,
    clip_low=0.2,
    clip_high=0.2,
    unit="set",
    member_norm="sum",
    cardinality_norm="sqrt",
):
    """sum_S w_S loss_S as one autograd graph over whole sets."""
    members = members_of(set_ids)
    set_weights = set_weights or weights(set_ids, "event_mean")
    total = log_prob.sum() * 0 if bool(log_prob.isfinite().all()) else torch.zeros((), dtype=log_prob.dtype)
    for set_id, rows in members.items():
        advantage = advantages[rows[0]]
        ratios = [member_log_ratio(log_prob, old_log_prob, mask, row, member_norm) for row in rows]
        if unit == "set":
            set_loss = clipped(joint(ratios, cardinality_norm), advantage, clip_low, clip_high)
        elif unit == "member":
            set_loss = sum(clipped(ratio, advantage, clip_low, clip_high) for ratio in ratios) / len(rows)
        else:
            tokens = [
                clipped(log_prob[row, t] - old_log_prob[row, t], advantage, clip_low, clip_high)
                for row in rows
                for t in range(log_prob.shape[1])
                if mask[row, t]
            ]
            set_loss = sum(tokens) / len(tokens) if tokens else 0.0
        total = total + set_weights[set_id] * set_loss
    return total


def advantages(
    returns,
    set_ids,
    episode_ids,
    task_ids,
    *,
    agent_ids,
    event_index,
    scope="signature",
    count="episode",
    scale="std",
    lonely="task",
    epsilon=1e-6,
    episode_returns=None,
) -> list[float]:
    """A_S on each row (eq. 6), 0 on padding rows."""
    members = members_of(set_ids)
    episode = {s: (int(task_ids[rows[0]]), int(episode_ids[rows[0]])) for s, rows in members.items()}
    index = {s: int(event_index[rows[0]]) for s, rows in members.items()}
    value = {s: float(returns[rows[0]]) for s, rows in members.items()}

    def whole_return(s):
        if episode_returns is not None:
            return float(episode_returns[members[s][0]])
        return value[min((other for other in members if episode[other] == episode[s]), key=index.__getitem__)]

    def key(s, scope):
        kind = [episode[s][0]]
        if scope in ("signature", "signature_event"):
            kind.append(tuple(sorted(int(agent_ids[row]) for row in members[s])))
        if scope in ("event", "signature_event"):
            kind.append(index[s])
        return tuple(kind)

    def population(s, scope):
        of = {x: whole_return(x) if scope == "task" else value[x] for x in members}
        peers = [x for x in members if key(x, scope) == key(s, scope)]
        sets_of_episode = Counter(episode[x] for x in peers)
        weight = {x: 1.0 / sets_of_episode[episode[x]] if count == "episode" else 1.0 for x in peers}
        n = round(sum(weight.values()), 9)
        mean = sum(weight[x] * of[x] for x in peers) / n
        variance = sum(weight[x] * (of[x] - mean) ** 2 for x in peers) / (n - 1) if n >= 2 else 0.0
        return of[s], n, mean, math.sqrt(variance)

    result = [0.0] * len(set_ids)
    for s, rows in members.items():
        v, n, mean, std = population(s, scope)
        if n < 2 and lonely == "task":
            v, n, mean, std = population(s, "task")
        if n < 2 or std < 1e-6:
            continue
        for row in rows:
            result[row] = (v - mean) / (std + epsilon) if scale == "std" else v - mean
    return result
