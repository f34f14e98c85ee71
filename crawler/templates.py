"""The configuration files that come with the program, as a start for one's own."""

from pathlib import Path
from typing import Final

TEMPLATES: Final = ("quick", "polite", "cluster", "benchmark")
_HERE: Final = Path(__file__).parent
# The wheel has the files in the package, the source tree beside it.
_FOLDERS: Final = (_HERE / "configs", _HERE.parent / "configs")


def template(name: str) -> str:
    """The text of a template, which is TOML."""
    return (
        next(folder for folder in _FOLDERS if folder.is_dir()).joinpath(f"{name}.toml").read_text()
    )
