"""The guests whose functions every language has, in Python: their own tests pass."""

import subprocess
import sys
from pathlib import Path

import pytest
import styx

GUESTS = Path(__file__).parents[3] / "guests"


@pytest.mark.parametrize("guest", ["conformance", "journey"])
def test_cases(guest):
    command = [sys.executable, "-m", "unittest", "discover"]
    path = str(Path(styx.__file__).parents[1])
    done = subprocess.run(command, cwd=GUESTS / guest / "python", env={"PYTHONPATH": path}, capture_output=True, text=True)
    assert done.returncode == 0 and "Ran 1 test" in done.stderr, done.stderr
