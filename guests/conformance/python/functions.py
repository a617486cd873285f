"""What every language does, in Python."""

import math
from typing import Any

import styx
from styx import Context, Operator

own = Operator("python")


@own.register
def echo_int(ctx: Context, n: int) -> int:
    return n


@own.register
def echo_text(ctx: Context, text: str) -> str:
    return text


@own.register
def echo_list(ctx: Context, numbers: list[int]) -> list[int]:
    return numbers


@own.register
def echo_any(ctx: Context, value: Any) -> Any:
    return value


@own.register
def echo_number(ctx: Context, x: float) -> float:
    return x


@own.register
def no_number(ctx: Context, x: float) -> float:
    """Infinity for what is more than 1, else no number at all: JSON has neither."""
    return x * 1e308 if x > 1 else math.nan


@own.register
def kept_sign(ctx: Context, x: float) -> bool:
    """Stores a number, or what is none for more than 1, and says of what it reads then whether it is below zero, or -0."""
    ctx.state.put(math.nan if x > 1 else x)
    kept = float(ctx.state.get())
    ctx.state.delete()
    return math.copysign(1, kept) < 0


@own.register(read_only=True)
def get(ctx: Context) -> int | None:
    return ctx.state.get()


@own.register
def add(ctx: Context, n: int) -> int:
    total = (ctx.state.get() or 0) + n
    ctx.state.put(total)
    return total


@own.register
def remove(ctx: Context) -> None:
    ctx.state.delete()


@own.register(read_only=True)
def keys(ctx: Context, prefix: str, limit: int, reverse: bool) -> list[str]:
    return [key for key, _ in ctx.state.scan(prefix, limit=limit or None, reverse=reverse)]


@own.register
def refuse(ctx: Context, code: str, message: str) -> None:
    raise styx.Abort(message, code=code)


@own.register
def write_and_refuse(ctx: Context) -> None:
    ctx.state.put(99)
    raise ValueError("after writing")


@own.register
def through(ctx: Context, languages: list[str], n: int) -> int:
    """Adds here, then in each of the languages, one calling the next: the sum of what they come to."""
    total = ctx.state.get() or 0
    if languages:
        below = ctx.call(languages[0], ctx.key, "through", languages[1:], n)
        ctx.call_async(languages[0], "later", "add", n)
    else:
        below = 0
    ctx.state.put(total + n)
    return below + total + n
