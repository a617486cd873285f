"""Keys: numbers with colons between them, the warehouse first; and pages of them.

Numbers of orders and lines have leading zeros, since keys are in the order of their bytes.
"""

from typing import Any

from styx import Context


def numbers(key: str) -> list[int]:
    """The numbers of a key."""
    return [int(part) for part in key.split(":")]


def order_key(warehouse: int, district: int, order: int) -> str:
    """An order, or a row that belongs to one alone."""
    return f"{warehouse}:{district}:{order:08}"


def line_key(order: str, line: int) -> str:
    """A line of an order."""
    return f"{order}:{line:02}"


def page(ctx: Context, prefix: str, after: str | None, limit: int) -> tuple[list[tuple[str, Any]], str | None]:
    """Entities whose keys begin so; and the last key, with which the next page begins, if this one is full."""
    entries = [*ctx.state.scan(prefix, after=after, limit=limit)]
    return entries, entries[-1][0] if entries and len(entries) == limit else None
