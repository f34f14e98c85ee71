"""Compiles the scanner of HTML, if there is a C compiler and the headers of Python.

`pip install` runs this as a hook of hatchling, also for editable installs. In a clone that is used
without an install, `python hatch_build.py` compiles in place; Cython and setuptools are needed.
"""

import hashlib
import sys
import tempfile
from pathlib import Path
from typing import Any

from Cython.Build import cythonize
from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from setuptools import Distribution, Extension
from setuptools.errors import CCompilerError, ExecError, PlatformError

_ROOT = Path(__file__).parent
_NAME = "crawler.reading.parse.scanner"
_SOURCE = _ROOT / "crawler" / "reading" / "parse" / "scanner.pyx"


def compile_scanner(directory: Path) -> Path | None:
    """Compile the scanner into a directory. Returns the file, or None if nothing here can do it.

    Raises CompileError of Cython if the source has a mistake.
    """
    digest = hashlib.sha256(_SOURCE.read_bytes()).hexdigest()
    extension = Extension(
        _NAME, [str(_SOURCE.relative_to(_ROOT))], define_macros=[("ABC_SOURCE", f'"{digest}"')]
    )
    modules = cythonize([extension], build_dir=str(directory), language_level=3, quiet=True)
    build = Distribution({"ext_modules": modules}).get_command_obj("build_ext")
    build.build_lib = build.build_temp = str(directory)
    build.ensure_finalized()
    try:
        build.run()
    except (CCompilerError, ExecError, PlatformError) as error:
        sys.stderr.write(
            f"abc-crawler: the scanner of HTML isn't compiled ({error}), so pages are read more"
            " slowly; install a C compiler and the headers of Python, and install again\n"
        )
        return None
    return Path(build.get_ext_fullpath(_NAME))


class ScannerHook(BuildHookInterface):  # type: ignore[type-arg]
    """Puts the compiled scanner into the wheel, or beside its source for an editable install."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile before the wheel is built."""
        if version == "editable":
            compile_in_place()
            return
        self._directory = tempfile.TemporaryDirectory()
        built = compile_scanner(Path(self._directory.name))
        if built:
            build_data["force_include"][str(built)] = str(_place(built))
            build_data["pure_python"] = False
            build_data["infer_tag"] = True


def _place(built: Path) -> Path:
    """Return where a compiled file belongs, relative to the root."""
    return _SOURCE.parent.relative_to(_ROOT) / built.name


def compile_in_place() -> Path | None:
    """Compile the scanner, and put it beside its source. Returns the file, or None without one."""
    with tempfile.TemporaryDirectory() as directory:
        built = compile_scanner(Path(directory))
        return built.replace(_ROOT / _place(built)) if built else None


if __name__ == "__main__":
    sys.exit(compile_in_place() is None)
