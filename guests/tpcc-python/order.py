"""Orders, and those among them that wait for their delivery."""

from keys import numbers, order_key, page
from styx import Context, Operator

order = Operator(
    "order",
    key_prefix="warehouse",
    doc="Orders, by `warehouse:district:order`; and an index of each customer's orders.",
)
new_order = Operator(
    "new_order",
    key_prefix="warehouse",
    doc="Orders that were not delivered yet, by `warehouse:district:order`.",
)


@order.register(name="fill")
def fill_orders(ctx: Context, rows: list[list]) -> None:
    """Adds orders [customer, carrier or null, lines] from the key's on."""
    warehouse, district, first = numbers(ctx.key)
    for number, (customer, carrier, lines) in enumerate(rows, first):
        _add(ctx, warehouse, district, number, [customer, ctx.time_us, carrier, lines, True])


@order.register(name="insert")
def insert_order(ctx: Context, customer: int, lines: int, all_local: bool) -> None:
    """Adds an order."""
    _add(ctx, *numbers(ctx.key), [customer, ctx.time_us, None, lines, all_local])


@order.register
def deliver(ctx: Context, carrier: int) -> int:
    """Hands the order to a carrier; returns its customer."""
    row = ctx.state.get()
    if row is None:
        raise LookupError(f"there is no order {ctx.key}")
    row[2] = carrier
    ctx.state.put(row)
    return row[0]


@order.register(read_only=True)
def latest(ctx: Context, customer: int) -> list | None:
    """The newest order of a customer of the key's district: [order, time, carrier or null], or null."""
    warehouse, district = numbers(ctx.key)
    prefix = f"{_index(warehouse, district, customer)}:"
    for key, _ in ctx.state.scan(prefix, reverse=True, limit=1):
        number = int(key.removeprefix(prefix))
        row = ctx.state.get(order_key(warehouse, district, number))
        if row is None:
            raise LookupError(f"{key} leads to no order")
        return [number, row[1], row[2]]
    return None


@order.register(name="audit", read_only=True)
def audit_orders(ctx: Context, after: str | None, limit: int) -> list:
    """A page of the key's district: [orders, highest number, then the sums of lines, customers, carriers,
    and how many are all local; last key or null].
    """
    entries, following = page(ctx, f"{ctx.key}:", after, limit)
    rows = [row for _, row in entries]
    sums = [sum(row[figure] or 0 for row in rows) for figure in (3, 0, 2, 4)]
    highest = numbers(entries[-1][0])[2] if entries else 0
    return [len(rows), highest, sums, following]


def _add(ctx: Context, warehouse: int, district: int, number: int, row: list) -> None:
    ctx.state.put(row, key=order_key(warehouse, district, number))
    ctx.state.put(None, key=f"{_index(warehouse, district, row[0])}:{number:08}")


def _index(warehouse: int, district: int, customer: int) -> str:
    """Where a customer's orders are listed: apart from the districts' orders."""
    return f"{warehouse}:by-customer:{district}:{customer}"


@new_order.register(name="fill")
def fill_new_orders(ctx: Context, last: int) -> None:
    """Adds orders from the key's on, up to this one."""
    warehouse, district, first = numbers(ctx.key)
    for number in range(first, last + 1):
        ctx.state.put(None, key=order_key(warehouse, district, number))


@new_order.register(name="insert")
def insert_new_order(ctx: Context) -> None:
    """Adds an order."""
    ctx.state.put(None)


@new_order.register
def pop(ctx: Context) -> int | None:
    """Takes the oldest out of the key's district: its number, or null."""
    for oldest, _ in ctx.state.scan(f"{ctx.key}:", limit=1):
        ctx.state.delete(oldest)
        return numbers(oldest)[2]
    return None


@new_order.register(name="audit", read_only=True)
def audit_new_orders(ctx: Context, after: str | None, limit: int) -> list:
    """A page of the key's district: [orders, lowest number or null, highest or null, last key or null]."""
    entries, following = page(ctx, f"{ctx.key}:", after, limit)
    ends = [numbers(entries[at][0])[2] if entries else None for at in (0, -1)]
    return [len(entries), *ends, following]
