"""What a process that runs a command does without, to start fast."""

import os
import subprocess
import sys

COMMAND = """
import sys
from pathlib import Path
from crawler.__main__ import main
assert main(["completion", "bash"]) == 0
threads = len(list(Path("/proc/self/task").iterdir()))  # numpy's, but not pyarrow's
from crawler.session.columns import site_table
site_table({})
taken = "pandas" in sys.modules
exec("import pandas", {"__name__": "plugin"})
print("", threads, taken, "pandas" in sys.modules)
"""


def test_pandas_is_left_to_plugins_and_matrices_have_no_threads() -> None:
    inherited = {k: v for k, v in os.environ.items() if k != "OPENBLAS_NUM_THREADS"}
    words = [sys.executable, "-c", COMMAND]
    done = subprocess.run(words, env=inherited, capture_output=True, text=True, check=True)
    assert done.stdout.endswith(" 1 False True\n")
