"""Lines of orders."""

from keys import initial_id, line_key, numbers, page
from styx import Context, Operator

order_line = Operator("order_line", key_prefix="warehouse", doc="Lines of orders, by `warehouse:district:id:line`.")


@order_line.register
def fill(ctx: Context, orders: list[list], delivered: bool) -> None:
    """Adds the lines [item, supplier, quantity, amount, text] of orders with the numbers from the key's on,
    delivered or not.
    """
    warehouse, district, first = numbers(ctx.key)
    time_us = ctx.time_us if delivered else None
    for number, lines in enumerate(orders, first):
        order = f"{warehouse}:{district}:{initial_id(number)}"
        for line, (item, supplier, quantity, amount, text) in enumerate(lines, 1):
            ctx.state.put([item, supplier, quantity, amount, time_us, text], key=line_key(order, line))


@order_line.register
def insert(ctx: Context, item: int, supplier: int, quantity: int, amount: int, text: str) -> None:
    """Adds a line."""
    ctx.state.put([item, supplier, quantity, amount, None, text])


@order_line.register
def deliver(ctx: Context) -> int:
    """Delivers all lines of the key's order; returns what they cost."""
    cost = 0
    for key, row in ctx.state.scan(f"{ctx.key}:"):
        cost += row[3]
        row[4] = ctx.time_us
        ctx.state.put(row, key=key)
    return cost


@order_line.register(read_only=True)
def of_order(ctx: Context) -> list:
    """The lines of the key's order: [item, supplier, quantity, amount, when it was delivered or null]."""
    return [row[:5] for _, row in ctx.state.scan(f"{ctx.key}:")]


@order_line.register(read_only=True)
def items_since(ctx: Context, order: str) -> list[int]:
    """The items in the orders of the key's district from an id on, each once."""
    prefix = f"{ctx.key}:"
    return sorted({row[0] for _, row in ctx.state.scan(prefix, after=f"{prefix}{order}")})


@order_line.register(read_only=True)
def audit(ctx: Context, after: str | None, limit: int) -> list:
    """A page of the key's district: [lines, then the sums of items, suppliers, quantities and amounts,
    how many were delivered and what those cost; last key or null].
    """
    entries, following = page(ctx, f"{ctx.key}:", after, limit)
    rows = [row for _, row in entries]
    delivered = [row for row in rows if row[4] is not None]
    sums = [sum(row[figure] for row in rows) for figure in range(4)]
    return [len(rows), [*sums, len(delivered), sum(row[3] for row in delivered)], following]
