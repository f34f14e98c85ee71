"""Installs plug-ins for a test."""

import os
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

# `install(group, name, source)` makes a package with a plug-in, and returns the folder of it.
Install = Callable[..., Path]
_NUMBERS = count()


def installer(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Installs into a folder, which is searched for modules here and in forks."""
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)

    def install(
        group: str, name: str, source: str, package: str = "mine", version: str = "1"
    ) -> Path:
        module = f"plugin_{os.getpid()}_{next(_NUMBERS)}"
        (folder / f"{module}.py").write_text(source)
        info = folder / f"{package}-{version}.dist-info"
        info.mkdir(exist_ok=True)
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}"
        )
        with (info / "entry_points.txt").open("a") as file:
            file.write(f"[crawler.{group}]\n{name} = {module}:{name.replace('-', '_')}\n")
        return folder

    return install
