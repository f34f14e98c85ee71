"""Drives a real browser by its DevTools protocol: no more than tests of a page need."""

import asyncio
import itertools
import json
import os
import shutil
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import axe_playwright_python
from aiohttp import ClientSession, ClientWebSocketResponse

BROWSER = shutil.which("chromium-headless-shell") or shutil.which("chromium")
_AXE = Path(axe_playwright_python.__file__).parent / "axe.min.js"
_OFFLINE = ("quic", "background-networking", "component-update", "sync", "gpu")


class Browser:
    """One page of a browser. `complaints`: errors of its scripts, and what its policy refused."""

    def __init__(self, socket: ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = itertools.count()
        self._page: dict[str, str] = {}
        self.complaints: list[dict[str, Any]] = []

    async def call(self, method: str, **arguments: Any) -> dict[str, Any]:
        number = next(self._numbers)
        await self._socket.send_json(
            {"id": number, "method": method, "params": arguments, **self._page}
        )
        while True:
            message = await self._socket.receive_json(timeout=30)
            if message.get("method") in {"Runtime.exceptionThrown", "Log.entryAdded"}:
                self.complaints.append(message)
            if message.get("id") == number:
                assert "error" not in message, message
                return dict(message["result"])

    async def open(self, address: str, width: int, theme: str) -> None:
        target = await self.call("Target.createTarget", url="about:blank")
        attached = await self.call(
            "Target.attachToTarget", targetId=target["targetId"], flatten=True
        )
        self._page = {"sessionId": attached["sessionId"]}
        await self.call("Runtime.enable")
        await self.call("Log.enable")
        await self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=900,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        feature = {"name": "prefers-color-scheme", "value": theme}
        await self.call("Emulation.setEmulatedMedia", features=[feature])
        await self.call("Page.navigate", url=address)

    async def evaluate(self, script: str) -> Any:
        result = await self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    async def until(self, script: str) -> None:
        """Wait until a script gives true."""
        for _ in range(300):
            if await self.evaluate(f"(() => {{ try {{ return {script} }} catch {{}} }})()"):
                return
            await asyncio.sleep(0.1)
        raise AssertionError(await self.evaluate("document.body.innerText"))

    async def accessibility(self) -> dict[str, Any]:
        """What axe says of the page: `violations` and `passes`."""
        await self.evaluate(_AXE.read_text() + ";0")
        found: dict[str, Any] = json.loads(
            await self.evaluate(
                "axe.run().then(({ violations, passes }) => JSON.stringify({ violations, passes }))"
            )
        )
        return found

    async def press_enter(self) -> None:
        for kind in ("keyDown", "keyUp"):
            key = {"key": "Enter", "text": "\r", "windowsVirtualKeyCode": 13}
            await self.call("Input.dispatchKeyEvent", type=kind, **key)


@asynccontextmanager
async def browsing(folder: Path) -> AsyncIterator[Browser]:
    """A browser of its own for a test, with its files in the folder."""
    assert BROWSER
    files = folder / "browser"
    process = await asyncio.create_subprocess_exec(
        *(BROWSER, "--no-sandbox", *(f"--disable-{what}" for what in _OFFLINE)),
        *("--remote-debugging-port=0", f"--user-data-dir={files}", "about:blank"),
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,  # the program may be a script, and it has many children
    )
    try:
        told = files / "DevToolsActivePort"  # a line with the port, and a line with the path
        while not (told.exists() and told.read_text().count("\n")):
            assert process.returncode is None
            await asyncio.sleep(0.1)
        port, path = told.read_text().split()
        where = f"ws://127.0.0.1:{port}{path}"
        async with ClientSession() as client, client.ws_connect(where, max_msg_size=0) as socket:
            yield Browser(socket)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
