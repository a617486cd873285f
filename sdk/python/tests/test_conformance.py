"""The functions that every language has, in Python: they answer what all of them answer."""

import subprocess
import sys
from pathlib import Path

import styx

GUEST = Path(__file__).parents[3] / "guests/conformance/python"


def test_cases():
    command = [sys.executable, "-m", "unittest", "discover"]
    path = str(Path(styx.__file__).parents[1])
    done = subprocess.run(command, cwd=GUEST, env={"PYTHONPATH": path}, capture_output=True, text=True)
    assert done.returncode == 0 and "Ran 1 test" in done.stderr, done.stderr
