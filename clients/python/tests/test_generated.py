"""What `styx generate client` writes for Python: it passes a type checker, and calls."""

from __future__ import annotations

import asyncio
import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from conftest import STYX, Server

from styx_client import AsyncClient, Client, Error


def generate(server: Server, directory: Path, *flags: str) -> ModuleType:
    file = directory / "shop.py"
    command = [STYX, "generate", "client", "shop", "--lang", "python", "--output", file, *flags]
    subprocess.run([*command, "--admin-url", server.urls["admin_url"]], check=True, capture_output=True)
    checked = subprocess.run([sys.executable, "-m", "mypy", "--strict", file], capture_output=True, text=True, cwd=directory)
    assert checked.returncode == 0, checked.stdout + file.read_text()
    spec = importlib.util.spec_from_file_location("shop", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_methods_call_functions(server: Server, tmp_path: Path) -> None:
    module = generate(server, tmp_path)
    assert module.Item.take.__doc__ == "Takes so many; aborts if there are not enough."
    with Client(**server.urls) as styx:
        shop = module.Shop(styx)
        shop.item("pear").insert(3, 10)
        assert shop.item("pear").take(2) is None
        with pytest.raises(Error, match="ABORTED"):
            shop.item("pear").take(2)
        users, credit, _ = shop.user("all").audit(after=None, limit=1)
        assert users <= 1 and isinstance(credit, int)


def test_methods_are_awaited(server: Server, tmp_path: Path) -> None:
    module = generate(server, tmp_path, "--asyncio")

    async def call() -> None:
        async with AsyncClient(**server.urls) as styx:
            await module.Shop(styx).item("melon").insert(1, 10)
            assert await styx.state("shop", "item", "melon") == [1, 10]

    asyncio.run(call())
