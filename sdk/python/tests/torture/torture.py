"""A guest that misbehaves in every way the SDK must cope with; built by test_component.py."""

import datetime
import logging
import os
import random
import secrets
import sys
import time
import uuid
from dataclasses import dataclass
from enum import Enum
from random import randint
from typing import Any

from styx import CallFailed, Context, Entity, Operator

evil = Operator("evil", key_prefix="tenant")

unseeded = random.Random()
seeded = random.Random(42)
print("imported", file=sys.stderr)
log = logging.getLogger("torture")


class Color(Enum):
    RED = "red"


@dataclass
class Point:
    x: int
    y: float = 0.5
    color: Color = Color.RED


class Nasty(Exception):
    def __str__(self):
        raise RuntimeError("no text")


@evil.register
def raises(ctx: Context, kind: str) -> None:
    ctx.state.put("written")
    if kind == "value":
        raise ValueError("plain")
    if kind == "empty":
        raise KeyError
    if kind == "surrogate":
        raise ValueError("a\ud800b\x00c")
    if kind == "huge":
        raise ValueError("é" * 1_000_000)
    if kind == "nasty":
        raise Nasty
    if kind == "exit":
        sys.exit(3)
    if kind == "recursion":
        raises(ctx, kind)
    if kind == "interrupt":
        raise KeyboardInterrupt
    if kind == "nan":
        ctx.state.put(float("nan"))
    if kind == "surrogate_value":
        ctx.state.put("\ud800")
    if kind == "object":
        ctx.state.put({"a": object()})
    if kind == "set":
        ctx.state.put({1j, 2})
    if kind == "circular":
        loop = []
        loop.append(loop)
        ctx.state.put(loop)
    if kind == "memory":
        kept = []
        while True:
            kept.append(bytes(8 << 20))
    if kind == "key":
        ctx.call(evil, 3, raises, "value")
    if kind == "group":
        raise ExceptionGroup("several", [ValueError("a"), TypeError("b")])


@evil.register
def takes(ctx: Context, point: Point, points: list[Point] = [], color: Color = Color.RED) -> Point:
    assert isinstance(point, Point) and isinstance(point.y, float) and isinstance(point.color, Color)
    assert all(isinstance(p, Point) for p in points)
    return Point(point.x + len(points), point.y, color)


@evil.register
def chance(ctx: Context) -> list:
    result = [
        random.random(),
        randint(1, 1000),
        random.gauss(0, 1),
        random.choice("abcdef"),
        ctx.random.randint(1, 10**6),
        unseeded.random(),
        seeded.random(),
        random.Random().random(),
        random.Random(7).random(),
    ]
    random.seed(5)
    seeded.seed(6)
    unseeded.seed(7)
    result.append(random.random())
    return result


@evil.register
def system(ctx: Context) -> list:
    """What the host answers by WASI; uuid1 and uuid7 remember the last one they made."""
    return [
        time.time(),
        str(datetime.datetime.now()),
        str(uuid.uuid1())[:18],
        str(uuid.uuid7())[:18],
        len(os.urandom(9)),
        len(secrets.token_hex(4)),
        len(str(uuid.uuid4())),
    ]


@evil.register
def prints(ctx: Context) -> None:
    print("one", 2)
    print("to stderr", file=sys.stderr)
    log.info("info %d", 3)
    logging.warning("warned")
    log.debug("not shown")
    ctx.log.info("ctx %s", "info")
    ctx.log.error("ctx error\ud800")
    try:
        1 / 0
    except ZeroDivisionError:
        log.exception("caught")
    print("no line end", end="")
    sys.stdout.flush()


@evil.register
def catches(ctx: Context) -> str:
    try:
        ctx.call(evil, "other", raises, "value")
    except CallFailed as failed:
        raise RuntimeError(f"added to {failed.code} {failed.message}") from failed
    return "saved?"


@evil.register
def passes_on(ctx: Context, kind: str) -> None:
    if kind == "bad":
        ctx.call("evil", "other", "takes", "nonsense")
    ctx.call(evil, "other", raises, kind)


@evil.register
def scans(ctx: Context) -> list:
    for n in range(6):
        ctx.state.put(n, key=f"k:{n}")
    s = ctx.state
    return [
        list(s.scan("k:", start="k:1", end="k:3")),
        [key for key, _ in s.scan("k:", after="k:3")],
        [key for key, _ in s.scan("k:", after="k:3", reverse=True, limit=2)],
    ]


@evil.register
def about(ctx: Context) -> list:
    return [ctx.app, ctx.operator, ctx.key, ctx.tid, ctx.request_id, ctx.time_us]


@evil.register
def bump(ctx: Context) -> dict:
    value = ctx.state.get() or {"n": 0, "name": "counter"}
    value["n"] += 1
    ctx.state.put(value)
    return value


@evil.register
def shown(ctx: Context, value: Any) -> str:
    return repr(value)


@evil.register
def all_shown(ctx: Context, first: Any, second: str, third: int) -> str:
    return repr([first, second, third])


@evil.register
def kept(ctx: Context) -> str:
    return repr(ctx.state.get())


@evil.register
def keeps(ctx: Context, value: Any) -> list:
    """Everything that crosses to the host and back."""
    ctx.state.put(value)
    ctx.state.put(value, "other")
    own, other = ctx.state.get(), ctx.state.get("other")
    assert repr(own) == repr(other)
    return [repr(own), ctx.call(evil, "x", shown, value), ctx.call(evil, "x", all_shown, value, "two", 3)]


@evil.register
def by_keyword(ctx: Context) -> list:
    ctx.state.put(value=1)
    ctx.state.put(2, key="x")
    results = [ctx.state.get(None), ctx.state.get(key="x"), ctx.state.get("none")]
    ctx.state.put([3], None)
    results.append(ctx.state.get(as_type=list[int]))
    results.append(type(ctx.call(evil, "x", kept_length, value="abc")).__name__)
    ctx.state.put("red")
    results.append(ctx.state.get(as_type=Color).value)
    return results


@evil.register
def kept_length(ctx: Context, value: str, more: int = 0) -> int:
    return len(value) + more


@evil.register
def wrong_key(ctx: Context) -> None:
    ctx.state.get(5)


@evil.register
def few_arguments(ctx: Context) -> None:
    ctx.call(evil, "x", shown)


@evil.register
def after_a_call_by_name(ctx: Context) -> str:
    return ctx.call("evil", "x", "shown", ctx.call(evil, "x", kept_length, "abc") + 2)


class Shelf(Entity):
    places: int
    next: "Shelf | None" = None

    def take(self, count: int) -> int:
        if self.places < count:
            raise ValueError(f"{self.key} is full")
        self.places -= count
        return self.places

    async def take_along(self, other: "Shelf", count: int) -> "Shelf":
        self.take(count)
        other.take(count)
        self.next = other
        return self.next
