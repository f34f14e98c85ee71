"""What the forks that crawl by one rank find ready (crawls.py).

All that they import is here, with the templates of the report. Otherwise, each fork would import
and compile it again, which takes longer than most of these crawls.
"""

import gc
import importlib

from crawler.__main__ import COMMANDS
from crawler.pages.rendering import _environment

for _name in (
    *(f"crawler.commands.{command.partition(':')[0]}" for command in COMMANDS.values()),
    "crawler.report.report",
    "crawls",  # the forks begin there
    "numpy.ma",
):
    importlib.import_module(_name)
for _name in ("base.html", "parts.html", "report.html"):
    _environment().get_template(_name)
gc.freeze()  # a collection in a fork would copy all pages of memory
