"""Real servers on free loopback ports: an application in a thread, and the command in a process of its own."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from verl_srpo.retrieval.server import listen, make_server

COMMAND = """
import argparse, sys
from verl_srpo.retrieval.command import add_parsers
parser = argparse.ArgumentParser()
add_parsers(parser.add_subparsers(required=True))
arguments = parser.parse_args()
sys.exit(arguments.run(arguments))
"""


@contextmanager
def running(app: Any) -> Iterator[str]:
    """Serve `app` in a thread; gives the base URL."""
    with running_server(app) as (url, _):
        yield url


@contextmanager
def running_server(app: Any) -> Iterator[tuple[str, Any]]:
    sock, ready = listen("127.0.0.1", 0), threading.Event()
    server = make_server(app, on_ready=ready.set)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]})
    thread.start()
    assert ready.wait(30)
    try:
        yield f"http://127.0.0.1:{sock.getsockname()[1]}", server
    finally:
        server.should_exit = True
        thread.join()
        sock.close()


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-c", COMMAND, *arguments]


class ServerProcess:
    """`verl-srpo serve-retriever` in a process; `url` is known once it is ready."""

    def __init__(self, index: Path, *options: str, port: int = 0):
        arguments = command("serve-retriever", "--index", str(index), "--port", str(port), *options)
        self.process = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.lines = []
        for line in self.process.stdout:
            self.lines.append(line)
            if line.startswith("ready:"):
                break
        else:
            raise AssertionError(f"the server ended with {self.process.wait()}: {self.lines}")
        self.url = self.lines[-1].split()[-1].removesuffix("/retrieve")

    @property
    def port(self) -> int:
        return int(self.url.rsplit(":", 1)[1])

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def terminate(self) -> int:
        self.process.terminate()
        return self.process.wait(30)
