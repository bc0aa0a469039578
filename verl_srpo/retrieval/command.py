"""`verl-srpo index` and `verl-srpo serve-retriever`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from verl_srpo.retrieval.corpus import Progress


def add_parsers(subparsers: Any) -> None:
    """Add both sub-commands."""
    _add_index(subparsers)
    _add_serve(subparsers)


def _add_index(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "index",
        help="index a corpus for retrieval",
        description='Index a corpus of JSON lines {"id": "0", "contents": "\\"Title\\"\\nbody"}.',
    )
    parser.add_argument("--corpus", type=Path, required=True, help="corpus file, .jsonl or .jsonl.gz")
    parser.add_argument("--out", type=Path, required=True, help="folder of the index")
    parser.add_argument("--kind", choices=("bm25", "dense"), default="bm25")
    parser.add_argument("--force", action="store_true", help="replace an index that is there")
    parser.add_argument("--skip-bad-lines", action="store_true", help="leave bad lines out and count them")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    parser.add_argument("--threads", type=_positive, help="default: up to 8 for bm25, all cores for dense")
    bm25 = parser.add_argument_group("bm25")
    bm25.add_argument(
        "--analyzer", choices=("english", "plain"), default="english", help="stop words and stemming or not"
    )
    dense = parser.add_argument_group("dense")
    dense.add_argument("--encoder", help="Hugging Face encoder, name or folder")
    dense.add_argument("--index-factory", default="Flat", help='faiss index-factory string, such as "IVF4096,PQ64"')
    dense.add_argument("--search-parameters", default="", help='faiss parameters at search time, such as "nprobe=64"')
    dense.add_argument("--query-prefix", default="", help='such as "query: " for E5')
    dense.add_argument("--passage-prefix", default="", help='such as "passage: " for E5')
    dense.add_argument("--pooling", choices=("mean", "cls"), default="mean")
    dense.add_argument("--max-length", type=_positive, default=256, help="tokens of a passage or query that count")
    dense.add_argument("--batch-size", type=_positive, default=64, help="texts encoded together")
    dense.add_argument("--device", default="cpu", help="device of the encoder")
    parser.set_defaults(run=run_index)


def _add_serve(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "serve-retriever",
        help="serve an index over HTTP",
        description="Serve POST /retrieve (both dialects) and GET /healthz. There is no authentication: keep it on "
        "loopback or a private network.",
    )
    parser.add_argument("--index", type=Path, required=True, help="index folder, or a small corpus (.jsonl)")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000, help="0: any free port")
    parser.add_argument("--topk", type=_positive, default=3, help="passages for a call that does not say")
    parser.add_argument("--max-topk", type=_positive, default=100)
    parser.add_argument("--max-queries", type=_positive, default=4096, help="queries in one call")
    parser.add_argument("--max-query-chars", type=_positive, default=8192, help="characters in one query")
    parser.add_argument("--max-batch", type=_positive, help="queries searched together (default: bm25 1, dense 64)")
    parser.add_argument("--max-pending", type=_positive, default=16384, help="queries that may wait; more get a 503")
    parser.add_argument("--threads", type=_positive, help="default: up to 8 for bm25, all cores for dense")
    parser.add_argument("--encoder", help="where the encoder of a dense index lies now (default: as indexed)")
    parser.add_argument("--device", help="device of a dense index's encoder (default: as indexed)")
    parser.add_argument("--search-parameters", help="faiss parameters (default: as indexed)")
    parser.set_defaults(run=run_serve)


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is given; at least 1 is expected")
    return value


def run_index(args: argparse.Namespace) -> int:
    """Build an index; exit status 2 with the reason when it cannot be."""
    from verl_srpo.retrieval.build import build_index
    from verl_srpo.retrieval.encoder import EncoderSettings
    from verl_srpo.retrieval.memory import index_memory, size_text

    try:
        encoder = None
        if args.kind == "dense" and args.encoder:
            fields = ("query_prefix", "passage_prefix", "pooling", "max_length", "batch_size", "device")
            encoder = EncoderSettings(args.encoder, **{field: getattr(args, field) for field in fields})
        with _progress_bar(args.quiet) as progress:
            manifest = build_index(
                args.corpus,
                args.out,
                kind=args.kind,
                analyzer=args.analyzer,
                encoder=encoder,
                index_factory=args.index_factory,
                search_parameters=args.search_parameters,
                threads=args.threads,
                skip_bad_lines=args.skip_bad_lines,
                replace=args.force,
                progress=progress,
            )
    except (OSError, ValueError, RuntimeError, ImportError) as error:
        return _failed("index", error)
    skipped = manifest.corpus["skipped_lines"]
    print(
        f"{args.out}: {manifest.kind} index of {manifest.passages} passages"
        f"{f', {skipped} bad lines left out' if skipped else ''}, {size_text(sum(manifest.files.values()))} on disk; "
        f"serving it needs {index_memory(manifest)}"
    )
    return 0


def run_serve(args: argparse.Namespace) -> int:
    """Serve until SIGINT or SIGTERM; exit status 2 with the reason when it cannot start."""
    from verl_srpo.retrieval.loading import load_index, memory_need
    from verl_srpo.retrieval.memory import available_memory, size_text
    from verl_srpo.retrieval.protocol import Limits
    from verl_srpo.retrieval.server import listen, make_app, make_server

    try:
        limits = Limits(args.topk, args.max_topk, args.max_queries, args.max_query_chars)
        sock = listen(args.host, args.port)
        if args.index.exists():
            print(
                f"{args.index} needs {memory_need(args.index)}; {size_text(available_memory())} are available",
                flush=True,
            )
        index = load_index(
            args.index,
            threads=args.threads,
            encoder=args.encoder,
            device=args.device,
            search_parameters=args.search_parameters,
        )
        app = make_app(index, limits=limits, max_batch=args.max_batch, max_pending=args.max_pending)
    except (OSError, ValueError, RuntimeError, ImportError) as error:
        return _failed("serve-retriever", error)
    host = f"[{args.host}]" if ":" in args.host else args.host
    address = f"http://{host}:{sock.getsockname()[1]}/retrieve"
    ready = f"ready: {index.kind} index of {len(index)} passages at {address}"
    make_server(app, on_ready=lambda: print(ready, flush=True)).run(sockets=[sock])
    return 0


def _failed(command: str, error: Exception) -> int:
    print(f"verl-srpo {command}: {error}", file=sys.stderr)
    return 2


@contextmanager
def _progress_bar(quiet: bool) -> Iterator[Progress]:
    from verl_srpo.retrieval.corpus import silent

    if quiet:
        yield silent
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        tasks: dict[str, Any] = {}

        def show(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = bar.add_task(stage, total=total)
            bar.update(tasks[stage], completed=done, total=total)

        yield show
