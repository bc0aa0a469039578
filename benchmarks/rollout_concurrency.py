"""How close concurrent episodes come to the lower bound, and what a lock-step batch loop takes.

    python benchmarks/rollout_concurrency.py [--episodes 128] [--slots 1024 64] [--scale 0.2]

A scripted server answers with latencies drawn from a long-tailed (log-normal) trace, the same for every way of playing,
and works on at most so many requests at a time (slots), as an inference engine does. Compared are

(a) the lower bound: the longest episode, or all work divided by the slots, whichever is more;
(b) a lock-step batch loop: everybody's first agents, then everybody's next, each stage waiting for its slowest call;
(c) this package: every episode goes on as soon as its own event is complete.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import random
import time
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
    parser.add_argument("--slots", type=int, nargs="+", default=[1024, 64], help="one table row for each")
    parser.add_argument("--scale", type=float, default=0.2, help="median seconds of a call")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    print("slots  agents  lower bound  episodes  lock-step  episodes/bound  lock-step/episodes")
    for slots in args.slots:
        for agents in (2, 4, 8):
            latency = trace(args.seed, args.episodes, agents, args.scale)
            bound = lower_bound(latency, args.episodes, slots)
            ours = asyncio.run(as_episodes(latency, slots, args.episodes, agents))
            lock_step = asyncio.run(in_lock_step(latency, slots, args.episodes, agents))
            print(
                f"{slots:5}  {agents:6}  {bound:10.2f}s  {ours:7.2f}s  {lock_step:8.2f}s  {ours / bound:14.2f}"
                f"  {lock_step / ours:18.2f}"
            )


if __name__ == "__main__":
    main()
