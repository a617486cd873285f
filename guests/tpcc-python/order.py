"""Orders, and those among them that wait for their delivery."""

from keys import id_after, initial_id, numbers, page
from styx import Context, Operator

order = Operator(
    "order",
    key_prefix="warehouse",
    doc="Orders, by `warehouse:district:id`, where ids are in the order of numbers; each district's next number; "
    "and an index of each customer's orders.",
)
new_order = Operator(
    "new_order",
    key_prefix="warehouse",
    doc="Orders that were not delivered yet, by `warehouse:district:id`.",
)


@order.register
def start(ctx: Context, number: int) -> None:
    """Sets the number of the next order of the key's district."""
    ctx.state.put([number, ""], key=_next_key(ctx.key))


@order.register(name="fill")
def fill_orders(ctx: Context, rows: list[list]) -> None:
    """Adds orders [customer, carrier or null, lines] with the numbers from the key's on."""
    warehouse, district, first = numbers(ctx.key)
    for number, (customer, carrier, lines) in enumerate(rows, first):
        row = [number, customer, ctx.time_us, carrier, lines, True]
        _add(ctx, f"{warehouse}:{district}", initial_id(number), row)


@order.register(name="insert")
def insert_order(ctx: Context, customer: int, lines: int, all_local: bool) -> list:
    """Adds an order to the key's district: [id, number]."""
    key = _next_key(ctx.key)
    following = ctx.state.get(key)
    if following is None:
        raise LookupError(f"there is no district {ctx.key}")
    number, newest = following
    id = id_after(ctx, newest)
    _add(ctx, ctx.key, id, [number, customer, ctx.time_us, None, lines, all_local])
    ctx.state.put([number + 1, id], key=key)
    return [id, number]


@order.register
def deliver(ctx: Context, carrier: int) -> list:
    """Hands the order to a carrier: [number, customer]."""
    row = ctx.state.get()
    if row is None:
        raise LookupError(f"there is no order {ctx.key}")
    row[3] = carrier
    ctx.state.put(row)
    return row[:2]


@order.register(read_only=True)
def latest(ctx: Context, customer: int) -> list | None:
    """The newest order of a customer of the key's district: [id, number, time, carrier or null], or null."""
    prefix = f"{_index_key(ctx.key, customer)}:"
    for key, _ in ctx.state.scan(prefix, reverse=True, limit=1):
        id = key.removeprefix(prefix)
        row = ctx.state.get(f"{ctx.key}:{id}")
        if row is None:
            raise LookupError(f"{key} leads to no order")
        return [id, row[0], row[2], row[3]]
    return None


@order.register(read_only=True)
def newest(ctx: Context, count: int) -> str | None:
    """The id of the oldest of so many newest orders of the key's district, or null if there is none."""
    prefix = f"{ctx.key}:"
    keys = [key for key, _ in ctx.state.scan(prefix, reverse=True, limit=count)]
    return keys[-1].removeprefix(prefix) if keys else None


@order.register(name="next", read_only=True)
def next_number(ctx: Context) -> int:
    """The number that the next order of the key's district will have."""
    following = ctx.state.get(_next_key(ctx.key))
    if following is None:
        raise LookupError(f"there is no district {ctx.key}")
    return following[0]


@order.register(name="audit", read_only=True)
def audit_orders(ctx: Context, after: str | None, limit: int) -> list:
    """A page of the key's district: [orders; the sums of lines, customers, carriers, and how many are all local;
    lowest and highest number of the page or null; how many wait for delivery, lowest and highest of those
    or null; last key or null].
    """
    entries, following = page(ctx, f"{ctx.key}:", after, limit)
    rows = [row for _, row in entries]
    sums = [sum(row[figure] or 0 for row in rows) for figure in (4, 1, 3, 5)]
    waiting = [row[0] for row in rows if row[3] is None]
    return [len(rows), sums, _range([row[0] for row in rows]), len(waiting), _range(waiting), following]


def _add(ctx: Context, district: str, id: str, row: list) -> None:
    ctx.state.put(row, key=f"{district}:{id}")
    ctx.state.put(None, key=f"{_index_key(district, row[1])}:{id}")


def _range(found: list[int]) -> list[int | None]:
    """Lowest and highest, if there is any."""
    return [min(found, default=None), max(found, default=None)]


def _next_key(district_key: str) -> str:
    """Where a district's next number is: apart from its orders."""
    warehouse, district = district_key.split(":")
    return f"{warehouse}:next:{district}"


def _index_key(district_key: str, customer: int) -> str:
    """Where a customer's orders are listed: apart from the districts' orders, too."""
    warehouse, district = district_key.split(":")
    return f"{warehouse}:by-customer:{district}:{customer}"


@new_order.register(name="fill")
def fill_new_orders(ctx: Context, last: int) -> None:
    """Adds orders with the numbers from the key's on, up to this one."""
    warehouse, district, first = numbers(ctx.key)
    for number in range(first, last + 1):
        ctx.state.put(None, key=f"{warehouse}:{district}:{initial_id(number)}")


@new_order.register(name="insert")
def insert_new_order(ctx: Context) -> None:
    """Adds an order."""
    ctx.state.put(None)


@new_order.register
def pop(ctx: Context) -> str | None:
    """Takes the oldest out of the key's district: its id, or null."""
    prefix = f"{ctx.key}:"
    for oldest, _ in ctx.state.scan(prefix, limit=1):
        ctx.state.delete(oldest)
        return oldest.removeprefix(prefix)
    return None


@new_order.register(name="audit", read_only=True)
def audit_new_orders(ctx: Context, after: str | None, limit: int) -> list:
    """A page of the key's district: [orders, last key or null]."""
    entries, following = page(ctx, f"{ctx.key}:", after, limit)
    return [len(entries), following]
