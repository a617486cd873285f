"""Keys: parts with colons between them, the warehouse first; and pages of them.

An order's key does not hold its number. The number depends on the orders before it, so a transaction
that has to run again behind others would get another key, and what it writes would not be what was
locked for it. The key holds the transaction's id, which stays, and which is in the order of the numbers
as well: see `id_after`.
"""

from typing import Any

from styx import Context


def numbers(key: str) -> list[int]:
    """The numbers of a key."""
    return [int(part) for part in key.split(":")]


def initial_id(number: int) -> str:
    """What was there at the beginning, in the order of numbers and before all that is ordered."""
    return f"i{number:08}"


def own_id(ctx: Context) -> str:
    """What the running transaction adds."""
    return f"t{ctx.tid:016x}"


def id_after(ctx: Context, last: str) -> str:
    """The same, but after `last`: a transaction that was put off may come behind later ones."""
    own = own_id(ctx)
    return own if own > last else f"{last}~"


def line_key(order: str, line: int) -> str:
    """A line of an order."""
    return f"{order}:{line:02}"


def page(ctx: Context, prefix: str, after: str | None, limit: int) -> tuple[list[tuple[str, Any]], str | None]:
    """Entities whose keys begin so; and the last key, with which the next page begins, if this one is full."""
    entries = [*ctx.state.scan(prefix, after=after, limit=limit)]
    return entries, entries[-1][0] if entries and len(entries) == limit else None
