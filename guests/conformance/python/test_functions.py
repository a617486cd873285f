import unittest
from pathlib import Path

from styx.codec import from_json, to_json
from styx.testing import CallFailed, Host

import functions

CASES = Path(__file__).parent.parent / "cases.tsv"


class ConformanceTest(unittest.TestCase):
    def test_cases(self):
        host = Host(functions)
        lines = CASES.read_text().splitlines()[1:]
        for line in lines:
            key, function, arguments, expected = line.split("\t")
            try:
                found = to_json(host.call("python", key, function, *from_json(arguments.encode()))).decode()
            except CallFailed as failed:
                found = f"{failed.full_code}: {failed.message}"
            except (TypeError, ValueError):  # the host takes no such call
                found = "BAD_ARGUMENTS"
            matches = found == expected or ":" not in expected and found.startswith(f"{expected}:")
            self.assertTrue(matches, f"{line}: {found}")
        self.assertGreater(len(lines), 40)
