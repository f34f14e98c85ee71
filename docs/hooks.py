"""What `mkdocs build` does besides: the pages in the root of the project join the site."""

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent
_JOINING = ("ARCHITECTURE.md", "RESULTS.md", "CHANGELOG.md")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages of the root, with links that lead to their places in the site."""
    for name in _JOINING:
        text = (ROOT / name).read_text(encoding="utf-8")
        text = re.sub(r"\]\(docs/", "](", text).replace("](README.md)", "](index.md)")
        files.append(File.generated(config, name.lower(), content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Lead links to these pages to their places in the site."""
    return re.sub(
        rf"\]\(\.\./((?:\.\./)*)({'|'.join(_JOINING)})",
        lambda found: f"]({found[1]}{found[2].lower()}",
        markdown,
    )
