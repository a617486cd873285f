"""A warehouse's stock of each item."""

from item import ORIGINAL
from keys import numbers, page
from styx import Context, Operator

stock = Operator("stock", key_prefix="warehouse", doc="Stock, by `warehouse:item`.")

#: Characters of the text that a district has for an item.
DISTRICT_TEXT = 24
DISTRICTS = 10


@stock.register
def fill(ctx: Context, rows: list[list]) -> None:
    """Adds rows [quantity, text of all districts, data] for the items from the key's on."""
    warehouse, first = numbers(ctx.key)
    for item, (quantity, texts, data) in enumerate(rows, first):
        if not texts.isascii() or len(texts) != DISTRICT_TEXT * DISTRICTS:
            raise ValueError(f"the districts' texts have {DISTRICT_TEXT} ASCII characters each")
        # Quantity, what was sold, orders, remote orders, then what does not change.
        ctx.state.put([quantity, 0, 0, 0, ORIGINAL in data, texts, data], key=f"{warehouse}:{item}")


@stock.register
def take(ctx: Context, quantity: int, district: int, remote: bool) -> list:
    """Sells so many: [what is left, the district's text, whether it says that it is original]."""
    if not 1 <= district <= DISTRICTS:
        raise ValueError(f"a warehouse has {DISTRICTS} districts")
    row = ctx.state.get()
    if row is None:
        raise LookupError(f"there is no stock {ctx.key}")
    # What would run out is filled up at once.
    row[0] += -quantity if row[0] >= quantity + 10 else 91 - quantity
    row[1] += quantity
    row[2] += 1
    row[3] += remote
    ctx.state.put(row)
    return [row[0], row[5][DISTRICT_TEXT * (district - 1) : DISTRICT_TEXT * district], row[4]]


@stock.register(read_only=True)
def low(ctx: Context, items: list[int], threshold: int) -> int:
    """How many of these items of the key's warehouse are fewer than the threshold."""
    warehouse, _ = numbers(ctx.key)
    count = 0
    for item in items:
        row = ctx.state.get(f"{warehouse}:{item}")
        if row is None:
            raise LookupError(f"there is no stock {warehouse}:{item}")
        count += row[0] < threshold
    return count


@stock.register(read_only=True)
def audit(ctx: Context, after: str | None, limit: int) -> list:
    """A page of the key's warehouse: [rows, and the sums of quantity, sold, orders, remote orders; last key or null]."""
    entries, following = page(ctx, f"{ctx.key}:", after, limit)
    return [len(entries), [sum(row[figure] for _, row in entries) for figure in range(4)], following]
