"""Names of aiohttp that it doesn't document and `crawler.net.wire` uses.

A failure here says what a new version of aiohttp has changed. docs/decisions/net.md says how the
bound in pyproject.toml is raised.
"""

import asyncio
import inspect
import tomllib
from importlib.metadata import version
from pathlib import Path

import aiohttp
import pytest
from aiohttp.client_proto import ResponseHandler
from servers import RawServer
from test_net import OK, get

from crawler.net.wire import PRIVATE_NAMES, Connector, Limits, WireProtocol

WHERE = "crawler/net/wire.py must follow; then raise the bound as docs/decisions/net.md says"


@pytest.mark.parametrize(
    ("owner", "name"), [(owner, name) for owner, names in PRIVATE_NAMES.items() for name in names]
)
def test_aiohttp_still_has_the_private_names_that_we_use(owner: type, name: str) -> None:
    async def make() -> object:
        if owner is ResponseHandler:
            return ResponseHandler(asyncio.get_running_loop())
        return owner()

    assert hasattr(asyncio.run(make()), name), (
        f"aiohttp {version('aiohttp')}: {owner.__name__} has no {name} any more; {WHERE}"
    )


@pytest.mark.parametrize(
    ("function", "parameters"),
    [
        (aiohttp.TCPConnector.connect, ["self", "req", "traces", "timeout"]),
        (
            aiohttp.TCPConnector._wrap_create_connection,
            ["self", "args", "addr_infos", "req", "timeout", "client_error", "kwargs"],
        ),
        (ResponseHandler.data_received, ["self", "data"]),
        (ResponseHandler.connection_made, ["self", "transport"]),
        (ResponseHandler.connection_lost, ["self", "exc"]),
    ],
)
def test_aiohttp_still_has_the_parameters_that_we_give(
    function: object, parameters: list[str]
) -> None:
    found = list(inspect.signature(function).parameters)  # type: ignore[arg-type]
    name = getattr(function, "__qualname__", function)
    assert found == parameters, (
        f"aiohttp {version('aiohttp')}: {name} takes {found}, and took {parameters}; {WHERE}"
    )


def test_aiohttp_makes_connections_of_our_class() -> None:
    async def made() -> object:
        return Connector(Limits(1, 1, 1, 1.0))._factory()

    what = f"aiohttp {version('aiohttp')}: TCPConnector._factory makes no connections any more"
    assert isinstance(asyncio.run(made()), WireProtocol), f"{what}; {WHERE}"
    with RawServer(OK + b"Content-Length: 2\r\n\r\nhi") as server:
        assert get(server.url).body == b"hi"


def test_the_bound_is_one_that_was_tested() -> None:
    """A version of aiohttp beyond the bound must not be what the tests ran with."""
    project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())
    (bound,) = [each for each in project["project"]["dependencies"] if each.startswith("aiohttp")]
    lower, upper = bound.removeprefix("aiohttp>=").split(",<")
    numbers = [tuple(map(int, text.split(".")[:2])) for text in (lower, version("aiohttp"), upper)]
    assert numbers[0] <= numbers[1] < numbers[2]
    assert numbers[2] == (numbers[1][0], numbers[1][1] + 1), "the bound goes beyond what is tested"
