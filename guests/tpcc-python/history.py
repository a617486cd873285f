"""What was paid, one row per payment."""

from keys import initial_id, page
from styx import Context, Operator

history = Operator(
    "history",
    key_prefix="warehouse",
    doc="Payments, by `warehouse:district:id`: where it was paid.",
)


@history.register
def fill(ctx: Context, first: int, amount: int, data: list[str]) -> None:
    """Adds the first payment of each of these customers of the key's district, from a number on."""
    for customer, text in enumerate(data, first):
        ctx.state.put([amount, ctx.time_us, text], key=f"{ctx.key}:{initial_id(customer)}")


@history.register
def insert(ctx: Context, amount: int, data: str) -> None:
    """Adds a payment."""
    ctx.state.put([amount, ctx.time_us, data])


@history.register(read_only=True)
def audit(ctx: Context, after: str | None, limit: int) -> list:
    """A page of the key's district: [payments, their sum, bytes of data, last key or null]."""
    entries, following = page(ctx, f"{ctx.key}:", after, limit)
    rows = [row for _, row in entries]
    return [len(rows), sum(row[0] for row in rows), sum(len(row[2]) for row in rows), following]
