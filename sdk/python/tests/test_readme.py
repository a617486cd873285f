"""The README's code: all of it runs."""

import importlib
import json
import re
import sys
from pathlib import Path

import pytest
from conftest import GUESTS

from styx import CallFailed
from styx.testing import Host

TEXT = (Path(__file__).parents[1] / "README.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)


@pytest.fixture
def modules(tmp_path, monkeypatch):
    """Blocks that say which file they are can be imported."""
    for block in BLOCKS:
        if named := re.match(r"# (\w+\.py)\n", block):
            (tmp_path / named[1]).write_text(block)
    for folder in (tmp_path, GUESTS / "travel"):
        monkeypatch.syspath_prepend(str(folder))
    importlib.invalidate_caches()
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.strip().splitlines()[-1].strip())
def test_a_block_runs(block, modules, monkeypatch):
    module = type(sys)("readme")
    monkeypatch.setitem(sys.modules, "readme", module)
    exec(compile(block, "README.md", "exec"), vars(module))
    tests = [value for name, value in vars(module).items() if name.startswith("test_")]
    assert bool(tests) == ("styx.testing" in block)
    for test in tests:
        test()


def test_there_are_blocks():
    assert len(BLOCKS) == 6


def test_the_first_app_does_what_its_commands_say(modules, monkeypatch):
    """The README of all."""
    text = (Path(__file__).parents[3] / "README.md").read_text()
    (block,) = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    shop = type(sys)("shop")
    monkeypatch.setitem(sys.modules, "shop", shop)
    exec(compile(block, "shop.py", "exec"), vars(shop))
    host = Host(shop)
    calls = re.findall(r"^styx call shop/(\w+)/(\w+)/(\w+) +'(.*)'(?: +# (.*))?$", text, re.MULTILINE)
    assert len(calls) == 4
    for operator, key, function, arguments, said in calls:
        if said.startswith("ABORTED: "):
            with pytest.raises(CallFailed, match=said.removeprefix("ABORTED: ")):
                host.call(operator, key, function, *json.loads(arguments))
        else:
            assert host.call(operator, key, function, *json.loads(arguments)) == (int(said) if said else None)
    assert host.get("stock", "apple") == {"pieces": 3, "price": 30}
