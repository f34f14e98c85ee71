"""Compiles the modules that are written in Cython, if there is a C compiler and Python's headers.

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
_SOURCES = {
    "crawler.reading.parse.scanner": _ROOT / "crawler" / "reading" / "parse" / "scanner.pyx",
    "crawler.stores.slots": _ROOT / "crawler" / "stores" / "slots.pyx",
}


def compile_modules(directory: Path) -> dict[str, Path]:
    """Compile all modules into a directory. Returns their files by name.

    If nothing here can compile them, returns an empty dict. Raises CompileError of Cython if a
    source has a mistake.
    """
    extensions = [_extension(name, source) for name, source in _SOURCES.items()]
    modules = cythonize(extensions, build_dir=str(directory), language_level=3, quiet=True)
    build = Distribution({"ext_modules": modules}).get_command_obj("build_ext")
    build.build_lib = build.build_temp = str(directory)
    build.ensure_finalized()
    try:
        build.run()
    except (CCompilerError, ExecError, PlatformError) as error:
        sys.stderr.write(
            f"abc-crawler: the scanner of HTML and the table of keys aren't compiled ({error}), so"
            " crawls take more time and memory; install a C compiler and the headers of Python, and"
            " install again\n"
        )
        return {}
    return {name: Path(build.get_ext_fullpath(name)) for name in _SOURCES}


def _extension(name: str, source: Path) -> Extension:
    digest = hashlib.sha256(source.read_bytes()).hexdigest()
    return Extension(
        name,
        [str(source.relative_to(_ROOT))],
        define_macros=[("ABC_SOURCE", f'"{digest}"')],
        extra_compile_args=["-O3"],  # CFLAGS of the environment replace the options of Python
    )


class CythonHook(BuildHookInterface):  # type: ignore[type-arg]
    """Puts the compiled modules into the wheel, or beside their sources for an editable install."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile before the wheel is built."""
        if version == "editable":
            compile_in_place()
            return
        self._directory = tempfile.TemporaryDirectory()
        built = compile_modules(Path(self._directory.name))
        for name, file in built.items():
            build_data["force_include"][str(file)] = str(_place(name, file))
        if built:
            build_data["pure_python"] = False
            build_data["infer_tag"] = True


def _place(name: str, built: Path) -> Path:
    """Return where a compiled file belongs, relative to the root."""
    return _SOURCES[name].parent.relative_to(_ROOT) / built.name


def compile_in_place() -> bool:
    """Compile the modules, and put them beside their sources. Returns whether that was possible."""
    with tempfile.TemporaryDirectory() as directory:
        built = compile_modules(Path(directory))
        for name, file in built.items():
            file.replace(_ROOT / _place(name, file))
    return bool(built)


if __name__ == "__main__":
    sys.exit(not compile_in_place())
