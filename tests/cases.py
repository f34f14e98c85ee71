"""Public conformance data, which isn't part of the project: where it lies, if it does."""

import os
from pathlib import Path

import pytest

CASES = Path(os.environ.get("ABC_CASES") or Path(__file__).parents[2] / "shared" / "cases")

needs_cases = pytest.mark.skipif(
    not CASES.is_dir(), reason=f"no conformance data in {CASES}: ABC_CASES names another folder"
)
