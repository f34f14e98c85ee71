"""Serves a web on 127.0.0.1, in this process or in a child process."""

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import cast

import uvloop

from crawler.config import toml_value
from crawler.demo.web.web import DemoWeb


class _Answers(dict[tuple[str, str], tuple[bytes, bytes]]):
    """Head and body of each response by (host, path). Each is made once, when first asked for."""

    def __init__(self, web: DemoWeb) -> None:
        super().__init__()
        self._web = web

    def __missing__(self, asked: tuple[str, str]) -> tuple[bytes, bytes]:
        status, headers, body = self._web.respond(*asked)
        lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}"]
        lines += [f"{name}: {value}" for name, value in headers]
        lines += [f"Content-Length: {len(body)}", "", ""]
        self[asked] = "\r\n".join(lines).encode(), body
        return self[asked]


class _Connection(asyncio.Protocol):
    """Answers GET and HEAD by HTTP/1.1, keeps connections alive, and allows pipelining."""

    def __init__(self, answers: _Answers) -> None:
        self._answers = answers
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's class is no subclass

    def data_received(self, data: bytes) -> None:
        *requests, self._rest = (self._rest + data).split(b"\r\n\r\n")
        for request in requests:
            line, *rest = request.decode("latin-1").split("\r\n")
            method, path, version = line.split(" ")
            split = (field.partition(":") for field in rest)
            fields = {name.lower(): value.strip().lower() for name, _, value in split}
            host = fields.get("host", "").partition(":")[0]
            head, body = self._answers[host, path]
            self._transport.write(head if method == "HEAD" else head + body)
            if version == "HTTP/1.0" or fields.get("connection") == "close":
                self._transport.close()
                return


def settings(web: DemoWeb, port: int) -> dict[str, dict[str, object]]:
    """The tables of a configuration that crawls a web served at a port. Its delay is 0.3 s."""
    return {
        "session": {"seeds": web.seeds},
        "scope": {"hosts": web.hosts},
        "dns": {"hosts": dict.fromkeys(web.hosts, f"127.0.0.1:{port}")},
        "fetch": {"allow_private_addresses": True},
        "politeness": {"delay_s": 0.3},  # the server is our own
    }


def _write_config(path: Path, tables: dict[str, dict[str, object]]) -> None:
    path.write_text(
        "\n".join(
            f"[{table}]\n" + "".join(f"{key} = {toml_value(keys[key])}\n" for key in keys)
            for table, keys in tables.items()
        ),
        encoding="utf-8",
    )


async def _serve(web: DemoWeb, port: int, configuration: Path | None) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    answers = _Answers(web)
    # All pages are written before the first request, so that the server is equally fast for every
    # crawl.
    for url in (*web.pages, *web.redirects):
        _, _, host, path = url.split("/", 3)
        answers[host, f"/{path}"]
    server = await loop.create_server(lambda: _Connection(answers), "127.0.0.1", port)

    def wait_for_parent() -> None:
        while os.read(0, 4096):
            pass
        loop.call_soon_threadsafe(stop.set)

    port = server.sockets[0].getsockname()[1]
    if configuration:
        _write_config(configuration, settings(web, port))
        pages, where = f"{len(web.pages):,} pages of {len(web.hosts)} sites", f"127.0.0.1:{port}"
        said = f"{pages} are served on {where}; {configuration} crawls them. Ctrl-C ends the server"
    else:  # a program has asked for the server
        threading.Thread(target=wait_for_parent, daemon=True).start()
        said = json.dumps({"port": port})
    print(said, flush=True)  # noqa: T201
    await stop.wait()
    server.close()


def outside_mpi() -> dict[str, str]:
    """The environment without the variables of MPI launchers, for a child that is no rank.

    A child that Python starts with -P finds our packages in it, and no files of the current folder.
    """
    launchers = ("PMI", "OMPI", "MPI", "HYDRA", "SLURM", "PRTE")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(launchers)}
    paths = [str(Path(__file__).parents[3]), *filter(None, [kept.get("PYTHONPATH")])]
    return kept | {"PYTHONPATH": os.pathsep.join(paths)}


@contextmanager
def serve(seed: int, pages: int = 2000, sites: int = 48) -> Iterator[tuple[DemoWeb, int]]:
    """Serve a web in a child process for the length of a `with` block: the web, and its port.

    The server listens on 127.0.0.1. It ends when its standard input is closed, so it can't outlive
    its parent.
    """
    arguments = ["--seed", str(seed), "--pages", str(pages), "--sites", str(sites)]
    child = subprocess.Popen(  # noqa: S603
        [sys.executable, "-P", "-m", "crawler.demo.web", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=outside_mpi(),
    )
    assert child.stdin
    assert child.stdout
    try:
        web = DemoWeb.generate(seed, pages, sites)
        line = child.stdout.readline()
        if not line:
            raise RuntimeError(
                f"the server of the demonstration failed with exit code {child.wait()}"
            )
        yield web, json.loads(line)["port"]
    finally:
        child.stdin.close()
        child.stdout.close()
        try:
            child.wait(10)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def main() -> None:
    """Serve the web that the command line names, until a signal, or the end of standard input."""
    parser = argparse.ArgumentParser(
        prog="python -m crawler.demo.web",
        description="Serve the web of the demonstration on 127.0.0.1: with --config until Ctrl-C,"
        " else until standard input ends.",
    )
    parser.add_argument("--seed", type=int, default=1, help="seed of the web (default 1)")
    parser.add_argument(
        "--pages", type=int, default=2000, help="approximate number of pages (default 2000)"
    )
    parser.add_argument("--sites", type=int, default=48, help="number of sites (default 48)")
    parser.add_argument(
        "--port", type=int, default=0, help="default: a free port, which is printed as JSON"
    )
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help="write a configuration that crawls the web"
    )
    arguments = parser.parse_args()
    web = DemoWeb.generate(arguments.seed, arguments.pages, arguments.sites)
    uvloop.run(_serve(web, arguments.port, arguments.config))
