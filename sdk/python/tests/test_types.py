"""What a type checker says of an app."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import styx

APP = """
from dataclasses import dataclass
from styx import AsyncContext, Context, Entity, Operator
from styx.testing import Host

shop = Operator("shop")

@dataclass
class Item:
    price: int

class User(Entity):
    balance: int = 0
    friend: "User | None" = None

    def pay(self, amount: int, note: str = "") -> bool:
        reveal_type(self.key)
        self.balance -= amount
        return True

    async def meet(self, other: "User") -> str:
        reveal_type(await other.meet(self))
        reveal_type(other.pay(1))
        return ""

@shop.register
def price(ctx: Context, pieces: int, note: str = "") -> int:
    item = ctx.state.get(as_type=Item)
    reveal_type(item)
    return pieces

@shop.register
async def slowly(ctx: AsyncContext, pieces: int) -> str:
    reveal_type(await ctx.call(shop, "a", price, 1))
    reveal_type(await ctx.call(shop, "a", slowly, 1))
    return ""

@shop.register
def calls(ctx: Context) -> None:
    reveal_type(ctx.call(shop, "a", price, 1))
    reveal_type(ctx.call(shop, "a", price, pieces=1, note="x"))
    reveal_type(ctx.call(shop, "a", slowly, 1))
    reveal_type(ctx.call("other", "a", "named", 1, "x"))
    ctx.call_async(shop, "a", price, 1)
    user = User.at("ann")
    reveal_type(user)
    reveal_type(User.create("ann", friend=user))
    reveal_type(ctx.call(User, "ann", User.pay, 1))
    reveal_type(ctx.call(User, "ann", User.meet, user))
    ctx.call_async(User, "ann", User.pay, amount=1)
    reveal_type(Host(User).at(User, "ann"))
    reveal_type(Host(User).create(User, "ann", 3))
    %s
"""


def checked(tmp_path, line: str) -> list[str]:
    file = tmp_path / "app.py"
    file.write_text(APP % line)
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports", "silent", "--no-error-summary"]
    command += ["--cache-dir", str(tmp_path.parent / "mypy"), "app.py"]
    environment = {**os.environ, "MYPYPATH": str(Path(styx.__file__).parents[1])}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert not done.stderr, done.stderr
    return [line.partition(": ")[2] for line in done.stdout.splitlines()]


def test_results_of_calls_have_types(tmp_path):
    revealed = [line.partition("Revealed type is ")[2].strip('"').replace("builtins.", "") for line in checked(tmp_path, "pass")]
    revealed = [line.replace("Union[app.Item, None]", "app.Item | None") for line in revealed]
    assert revealed == [
        *("str", "str", "bool"),
        *("app.Item | None", "int", "str", "int", "int", "str", "Any"),
        *("app.User", "app.User", "bool", "str", "app.User", "app.User"),
    ]


@pytest.mark.parametrize(
    "line",
    [
        'ctx.call(shop, "a", price)',
        'ctx.call(shop, "a", price, "x")',
        'ctx.call(shop, "a", price, 1, "x", 2)',
        'ctx.call(shop, "a", price, peices=1)',
        'ctx.call(shop, 1, price, 1)',
        'ctx.call_async(shop, "a", price)',
        'n: str = ctx.call(shop, "a", price, 1)',
        "User.at(1)",
        'User.at("a").pay()',
        'User.at("a").pay("x")',
        'User.create("a", "x")',
        'User.create("a", blance=1)',
        'ctx.call(User, "a", User.pay)',
        'ctx.call_async(User, "a", User.pay, "x")',
        'Host(User).create(User, "a", "x")',
    ],
)
def test_wrong_calls_are_seen(tmp_path, line):
    assert any(said.startswith("error: ") for said in checked(tmp_path, line))
