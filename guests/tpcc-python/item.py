"""Items: what all warehouses sell. They never change."""

from keys import page
from styx import Context, Operator

item = Operator("item", doc="Items, by number.")

#: Brand items have this word in their data, and in that of their stock.
ORIGINAL = "ORIGINAL"


@item.register
def insert(ctx: Context, name: str, price: int, data: str) -> None:
    """Adds an item."""
    ctx.state.put([price, name, ORIGINAL in data, data])


@item.register(read_only=True)
def get(ctx: Context) -> list:
    """[price, name, whether it says that it is original]; raises if there is no such item."""
    row = ctx.state.get()
    if row is None:
        raise LookupError("item number is not valid")
    return row[:3]


@item.register(read_only=True)
def audit(ctx: Context, after: str | None, limit: int) -> list:
    """A page: [items, sum of prices, bytes of data, last key of the page or null]."""
    entries, following = page(ctx, "", after, limit)
    rows = [row for _, row in entries]
    return [len(rows), sum(row[0] for row in rows), sum(len(row[3]) for row in rows), following]
