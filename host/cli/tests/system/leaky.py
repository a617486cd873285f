"""Keeps what no entity holds in every way that comes naturally, as the Rust guest's `leak` does with a counter."""

import random
from functools import lru_cache

from styx import Context, Operator

a = Operator("a")
b = Operator("b")
count = 0
table: dict[int, int] = {}
drawn = random.Random(7)


@lru_cache
def nth(n: int) -> int:
    # What it says depends on when it was first asked.
    return n + count


def leaked() -> int:
    global count
    count += 1
    table.setdefault(count % 7, len(table))
    return count + nth(count % 5) + len(table) + drawn.randrange(100)


def register(operator: Operator) -> None:
    @operator.register
    def leak(ctx: Context) -> int:
        return leaked()

    @operator.register
    def leak_into_state(ctx: Context) -> None:
        ctx.state.put(leaked())


register(a)
register(b)
