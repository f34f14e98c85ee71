"""What curl makes of the scripted replies among the conformance data.

    python tests/curl.py      renews tests/instances/curl-bodies.json with this machine's curl

The file gives for each reply, by its id, curl's exit code for a plain GET and a digest of the body
that it put out; then both for a GET with --compressed.
"""

import base64
import hashlib
import json
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from cases import CASES
from servers import RawServer

BODIES = Path(__file__).parent / "instances" / "curl-bodies.json"


class Reply(NamedTuple):
    id: str
    data: bytes


def replies(cases: Path = CASES, name: str = "*") -> list[Reply]:
    """Those of curl's own tests and of llhttp's, where there are such data."""
    found: dict[str, bytes] = {}
    for path in sorted((cases / "conformance" / "http").glob(f"{name}-responses.jsonl")):
        for line in path.read_text("utf-8").splitlines():
            row = json.loads(line)
            assert row["id"] not in found
            found[row["id"]] = base64.b64decode(row["response_b64"])
    return [Reply(*item) for item in found.items()]


class ReplyServer(RawServer):
    """Sends the reply whose number is the path, one at a time, and closes."""

    def __init__(self, answers: Sequence[Reply]) -> None:
        super().__init__(self._reply)
        self._answers = answers

    def _reply(self, connection: socket.socket) -> None:
        path = self.requests[-1].split()[1]
        connection.sendall(self._answers[int(path.strip(b"/"))].data)


def digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()[:16]


def ask_curl(answers: Sequence[Reply], *options: str) -> list[tuple[int, bytes]]:
    """Exit code and body for each."""
    found: list[tuple[int, bytes]] = []
    with ReplyServer(answers) as server:
        for number in range(len(answers)):
            command = ["curl", "-q", "-s", "-m", "5", "-o", "-", *options, f"{server.url}{number}"]
            done = subprocess.run(command, capture_output=True, check=False)
            found.append((done.returncode, done.stdout))
    return found


def main() -> None:
    answers = replies()
    plain, compressed = ask_curl(answers), ask_curl(answers, "--compressed")
    table = {
        answer.id: [first[0], digest(first[1]), second[0], digest(second[1])]
        for answer, first, second in zip(answers, plain, compressed, strict=True)
    }
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(row)}" for name, row in table.items())
    BODIES.write_text(f"{{\n{lines}\n}}\n", "utf-8")


if __name__ == "__main__":
    main()
