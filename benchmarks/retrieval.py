"""The retrieval server against one that answers a query at a time; build time and memory of the indexes.

python benchmarks/retrieval.py [--kinds bm25 dense] [--passages 200000] [--json FILE]

The corpus is drawn from a Zipf-like vocabulary, the dense encoder has random weights in the shape of MiniLM (6 layers
of 384): speed does not depend on what they mean. Server and clients share the machine's cores. Both servers take turns.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
from rich.console import Console
from rich.table import Table

COMMAND = [sys.executable, "-m", "verl_srpo.cli"]
CONCURRENT, ONE_BY_ONE = "concurrent", "one query at a time"
VOCABULARY, WORDS_IN_A_PASSAGE = 50_000, 100


@dataclass
class Build:
    kind: str
    passages: int
    seconds: float
    peak_mib: float
    disk_mib: float


@dataclass
class Load:
    kind: str
    server: str
    queries_per_second: float
    median_ms: float
    p95_ms: float


def words_of(rows: int, length: int, seed: int) -> Iterator[list[str]]:
    """Rows of `length` words; the word of rank r is about as frequent as 1/r."""
    rng = np.random.default_rng(seed)
    for _ in range(rows):
        ranks = np.minimum(np.exp(rng.random(length) * np.log(VOCABULARY)), VOCABULARY - 1)
        yield [f"w{rank:x}" for rank in ranks.astype(int)]


def write_corpus(path: Path, passages: int) -> Path:
    with open(path, "w") as out:
        for number, words in enumerate(words_of(passages, WORDS_IN_A_PASSAGE, seed=0)):
            contents = f'"{" ".join(words[:3])}"\n{" ".join(words[3:])}'
            out.write(json.dumps({"id": str(number), "contents": contents}) + "\n")
    return path


def make_encoder(folder: Path) -> Path:
    from transformers import BertConfig, BertModel, BertTokenizer

    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", '"', *(f"w{rank:x}" for rank in range(1, 20_000))]
    BertTokenizer(vocab={word: number for number, word in enumerate(vocabulary)}).save_pretrained(folder)
    shape = {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536}
    BertModel(BertConfig(vocab_size=len(vocabulary), **shape)).save_pretrained(folder)
    return folder


def build(kind: str, corpus: Path, out: Path, passages: int, options: list[str]) -> Build:
    arguments = ["index", "--kind", kind, "--corpus", str(corpus), "--out", str(out), *options]
    start = time.perf_counter()
    process = subprocess.Popen([*COMMAND, *arguments], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    if status:
        raise SystemExit(f"`verl-srpo {' '.join(arguments)}` failed")
    disk = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    return Build(kind, passages, seconds, usage.ru_maxrss / 1024, disk / 2**20)


async def one_client(host: str, port: int, queries: list[str]) -> list[float]:
    """Ask one query after the other over one connection; seconds of each. (Plain sockets: a full HTTP client would use
    more of the machine than the server does.)"""
    reader, writer = await asyncio.open_connection(host, port)
    seconds = []
    for query in queries:
        body = json.dumps({"query": query, "topk": 3, "return_scores": True}).encode()
        start = time.perf_counter()
        writer.write(b"POST /retrieve HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        await reader.readexactly(int(head.split(b"content-length:")[1].split(b"\r\n")[0]))
        seconds.append(time.perf_counter() - start)
        if b" 200 " not in head.split(b"\r\n")[0]:
            raise SystemExit(f"the server answered {head.splitlines()[0]!r}")
    writer.close()
    return seconds


async def all_clients(url: str, clients: int, queries: list[str]) -> tuple[float, list[float]]:
    parts = urlsplit(url)
    share = [queries[number::clients] for number in range(clients)]
    start = time.perf_counter()
    seconds = await asyncio.gather(*(one_client(parts.hostname, parts.port, part) for part in share))
    return time.perf_counter() - start, [s for part in seconds for s in part]


def server_options(kind: str, threads: int) -> dict[str, list[str]]:
    """A thread of a bm25 server searches one query at a time; the threads of a dense one work on a batch together."""
    alone = 1 if kind == "bm25" else threads
    return {CONCURRENT: ["--threads", str(threads)], ONE_BY_ONE: ["--threads", str(alone), "--max-batch", "1"]}


def load(kind: str, index: Path, clients: int, queries: list[str], rounds: int, threads: int) -> list[Load]:
    processes, urls = [], {}
    for name, options in server_options(kind, threads).items():
        arguments = [*COMMAND, "serve-retriever", "--index", str(index), "--port", "0", *options]
        process = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
        processes.append(process)
        urls[name] = next(line for line in process.stdout if line.startswith("ready:")).split()[-1]
    walls: dict[str, list[float]] = {name: [] for name in urls}
    latencies: dict[str, list[float]] = {name: [] for name in urls}
    try:
        for url in urls.values():
            asyncio.run(all_clients(url, clients, queries[: 4 * clients]))  # warm up
        for _ in range(rounds):
            for name, url in urls.items():
                wall, seconds = asyncio.run(all_clients(url, clients, queries))
                walls[name].append(wall)
                latencies[name] += seconds
    finally:
        for process in processes:
            process.terminate()
            process.wait()
    return [
        Load(
            kind,
            name,
            len(queries) / statistics.median(walls[name]),
            1000 * statistics.median(latencies[name]),
            1000 * float(np.quantile(latencies[name], 0.95)),
        )
        for name in urls
    ]


def show(builds: list[Build], loads: list[Load], clients: int) -> None:
    table = Table(title="Building the index")
    for heading in ("kind", "passages", "seconds", "peak memory, MiB", "on disk, MiB"):
        table.add_column(heading, justify="left" if heading == "kind" else "right")
    for row in builds:
        table.add_row(row.kind, f"{row.passages:,}", f"{row.seconds:.1f}", f"{row.peak_mib:.0f}", f"{row.disk_mib:.0f}")
    Console().print(table)
    table = Table(title=f"{clients} concurrent clients, one query a call")
    for heading in ("kind", "server", "queries/s", "median, ms", "95 %, ms"):
        table.add_column(heading, justify="left" if heading in ("kind", "server") else "right")
    for load in loads:
        figures = (load.queries_per_second, load.median_ms, load.p95_ms)
        table.add_row(load.kind, load.server, *(f"{figure:.1f}" for figure in figures))
    Console().print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", nargs="+", choices=("bm25", "dense"), default=["bm25", "dense"])
    parser.add_argument("--passages", type=int, default=200_000, help="of the bm25 index")
    parser.add_argument(
        "--dense-passages", type=int, default=4_000, help="of the dense index (encoding takes long on CPU)"
    )
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--queries", type=int, default=4096, help="in each round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="on a busy machine 1 is best for dense")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    args = parser.parse_args()
    builds, loads = [], []
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        for kind in args.kinds:
            passages = args.passages if kind == "bm25" else args.dense_passages
            corpus = write_corpus(place / f"{kind}.jsonl", passages)
            options = ["--threads", str(args.threads)]
            if kind == "dense":
                options += ["--encoder", str(make_encoder(place / "encoder"))]
            builds.append(build(kind, corpus, place / kind, passages, options))
            queries = [" ".join(words) for words in words_of(args.queries, 6, seed=1)]
            loads += load(kind, place / kind, args.clients, queries, args.rounds, args.threads)
    show(builds, loads, args.clients)
    if args.json:
        record = {"builds": [asdict(row) for row in builds], "loads": [asdict(row) for row in loads]}
        args.json.write_text(
            json.dumps({"cores": os.cpu_count(), "threads": args.threads, "clients": args.clients, **record}, indent=1)
            + "\n"
        )


if __name__ == "__main__":
    main()
