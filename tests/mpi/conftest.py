"""Tests that run on all ranks at a time, as coroutines. The first failure ends all ranks."""

import inspect

import pytest
import uvloop

from crawler.mpi import MpiGroup

GROUP = MpiGroup()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    uvloop.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.failed:  # the other ranks would wait for this one
        GROUP.abort(1, f"rank {GROUP.rank}: {report.nodeid} failed\n{report.longreprtext}\n")
