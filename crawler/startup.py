"""Settings of a process that runs a command. They shorten its start.

Only the command line imports this module, before numpy. A script that imports the crawler keeps its
own settings.
"""

import atexit
import gc
import os
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

# numpy would start a thread for each core, which waits busily. Nothing here multiplies matrices.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# pyarrow's own allocator asks for pages of 2 MB, and the kernel clears the whole of each page. The
# tables of a few thousand pages then took 40 MB more memory on each rank, and more CPU time.
os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")

# Python searches for garbage each time that 700 objects are new. While modules are imported there
# is none, and these searches took 8 % of the CPU time of a crawl of two pages. The last search is
# at the exit. The agent of a crawl sets another threshold (`agent.timing`).
gc.set_threshold(200_000)
atexit.register(gc.freeze)

_REFUSED = ("crawler", "partition", "pyarrow")


class _PandasForOthers:
    """Refuses to import pandas for pyarrow, and for the crawler, which never imports it itself.

    When pyarrow makes its first array of a list, it imports pandas if that is installed, to see
    whether the list is a Series. This takes half as long as the whole start of a rank. Most of
    pyarrow is no Python code, so the import seems to come from the module that calls pyarrow.
    Plug-ins may import pandas.
    """

    def find_spec(
        self, name: str, path: object = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Raise ImportError if pandas is imported for pyarrow. Otherwise others find the module."""
        if name == "pandas":
            frame = sys._getframe(1)  # noqa: SLF001  # the documented way to the caller
            while frame.f_back and frame.f_globals["__name__"].startswith("importlib."):
                frame = frame.f_back
            if frame.f_globals["__name__"].partition(".")[0] in _REFUSED:
                raise ModuleNotFoundError("pyarrow does without pandas here", name=name)
        return None


def begin() -> None:
    """Leave out pandas from now on."""
    if not isinstance(sys.meta_path[0], _PandasForOthers):
        sys.meta_path.insert(0, _PandasForOthers())
