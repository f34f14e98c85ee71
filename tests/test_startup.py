"""What a process that runs a command does without, to start fast."""

import os
import subprocess
import sys

COMMAND = """
import gc
import sys
import crawler.startup
before = gc.get_stats()[0]["collections"]
from pathlib import Path
from crawler.__main__ import main
assert main(["completion", "bash"]) == 0
threads = len(list(Path("/proc/self/task").iterdir()))  # numpy's, but not pyarrow's
from crawler.session.columns import site_table
site_table({})
taken = "pandas" in sys.modules
searches = gc.get_stats()[0]["collections"] - before
exec("import pandas", {"__name__": "plugin"})
from pyarrow import default_memory_pool
print("", threads, searches, taken, "pandas" in sys.modules, default_memory_pool().backend_name)
"""


def test_a_command_starts_without_pandas_threads_for_matrices_and_garbage() -> None:
    ours = {"OPENBLAS_NUM_THREADS", "ARROW_DEFAULT_MEMORY_POOL"}
    inherited = {k: v for k, v in os.environ.items() if k not in ours}
    words = [sys.executable, "-c", COMMAND]
    done = subprocess.run(words, env=inherited, capture_output=True, text=True, check=True)
    assert done.stdout.endswith(" 1 0 False True system\n")
