"""How close concurrent episodes come to the lower bound, and what a lock-step batch loop takes.

    python benchmarks/rollout_concurrency.py [--episodes 128] [--slots 1024 256 64] [--scale 0.2]

A scripted server answers with latencies drawn from a long-tailed (log-normal) trace, the same for every way of playing,
and works on at most so many requests at a time (slots), first come, first served, as an inference engine does. Compared
are

(a) the lower bound: the longest episode, or all work divided by the slots, whichever is more;
(b) the queue: such a server under episodes that lose no time at all, computed. With few slots it is above the bound:
    who does not know the latencies cannot begin with the longest calls;
(c) a lock-step batch loop: everybody's first agents, then everybody's next, each stage waiting for its slowest call;
(d) this package: every episode goes on as soon as its own event is complete.
"""

from __future__ import annotations

import argparse
import asyncio
import heapq
import math
import random
import time
from collections import deque
from types import SimpleNamespace

from verl_srpo.rollout import Generator, Limits, Task, Team, build_workflow, play

Latency = dict[tuple[int, str], float]
LIMITS = Limits(context=4096, prompt=4000, response=64)


class Codec:
    eos_token_ids = frozenset({0})

    def prompt(self, messages):
        return [1] * 16

    def encode(self, text):
        return [2] * len(text)

    def decode(self, ids):
        return "draft"


def trace(seed: int, episodes: int, agents: int, scale: float) -> Latency:
    """Seconds that each call takes: median `scale`, one in a hundred about ten times that."""
    rng = random.Random(seed)
    names = [f"solver{i}" for i in range(1, agents)] + ["judge"]
    return {(e, name): scale * rng.lognormvariate(0.0, 1.0) for e in range(episodes) for name in names}


class Server:
    """Works on `slots` requests at a time, first come, first served."""

    def __init__(self, latency: Latency, slots: int):
        self.latency, self.slots = latency, asyncio.Semaphore(slots)

    async def generate(self, request_id, *, prompt_ids, sampling_params, **kwargs):
        episode, agent = request_id.split("-")
        async with self.slots:
            await asyncio.sleep(self.latency[int(episode), agent])
        return SimpleNamespace(token_ids=[2, 0], log_probs=[-0.1, -0.1], stop_reason="completed", extra_fields={})


def lower_bound(latency: Latency, episodes: int, slots: int) -> float:
    longest = 0.0
    for episode in range(episodes):
        own = {agent: seconds for (e, agent), seconds in latency.items() if e == episode}
        judge = own.pop("judge")
        longest = max(longest, max(own.values()) + judge)
    return max(longest, math.fsum(latency.values()) / slots)


def queue_time(latency: Latency, episodes: int, agents: int, slots: int) -> float:
    """When the last call ends where every call is sent at the moment at which it can be."""
    waiting = deque((e, f"solver{i}") for e in range(episodes) for i in range(1, agents))
    drafts_to_come = [agents - 1] * episodes
    running: list[tuple[float, int, str]] = []
    now = 0.0
    while waiting or running:
        while waiting and len(running) < slots:
            episode, name = waiting.popleft()
            heapq.heappush(running, (now + latency[episode, name], episode, name))
        now, episode, name = heapq.heappop(running)
        if name != "judge":
            drafts_to_come[episode] -= 1
            if not drafts_to_come[episode]:
                waiting.append((episode, "judge"))
    return now


async def in_lock_step(latency: Latency, slots: int, episodes: int, agents: int) -> float:
    server = Server(latency, slots)
    start = time.perf_counter()
    for stage in ([f"solver{i}" for i in range(1, agents)], ["judge"]):
        calls = [(f"{e}-{name}", name) for e in range(episodes) for name in stage]
        await asyncio.gather(*(server.generate(r, prompt_ids=[1], sampling_params={}) for r, _ in calls))
    return time.perf_counter() - start


async def as_episodes(latency: Latency, slots: int, episodes: int, agents: int) -> float:
    server = Server(latency, slots)
    workflow, roster = build_workflow("math/debate", {"n": agents - 1})

    async def one(episode: int):
        generator = Generator(server, Codec(), LIMITS, {"logprobs": True}, episode=str(episode))
        task = Task(({"role": "user", "content": "?"},), uid=str(episode))
        return await play(workflow, task, lambda: Team(roster, generator))

    start = time.perf_counter()
    done = await asyncio.gather(*(one(e) for e in range(episodes)))
    seconds = time.perf_counter() - start
    assert all(len(episode.trained) == agents for episode in done)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=128)
    parser.add_argument("--slots", type=int, nargs="+", default=[1024, 256, 64], help="three table rows for each")
    parser.add_argument("--scale", type=float, default=0.2, help="median seconds of a call")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    print("slots  agents    bound    queue  episodes  lock-step  episodes/bound  episodes/queue  lock-step/episodes")
    for slots in args.slots:
        for agents in (2, 4, 8):
            latency = trace(args.seed, args.episodes, agents, args.scale)
            bound = lower_bound(latency, args.episodes, slots)
            queue = queue_time(latency, args.episodes, agents, slots)
            ours = asyncio.run(as_episodes(latency, slots, args.episodes, agents))
            lock_step = asyncio.run(in_lock_step(latency, slots, args.episodes, agents))
            print(
                f"{slots:5}  {agents:6}  {bound:6.2f}s  {queue:6.2f}s  {ours:7.2f}s  {lock_step:8.2f}s"
                f"  {ours / bound:14.2f}  {ours / queue:14.2f}  {lock_step / ours:18.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
