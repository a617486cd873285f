"""What a warehouse and a district have in common: a name, an address, a tax and what was paid there.

What was paid is under another key than what does not change.
"""

from styx import Context


def open_place(ctx: Context, name: str, address: list[str], tax: int, paid: int) -> None:
    """Opens it."""
    ctx.state.put([tax, name, address])
    ctx.state.put(paid, key=f"{ctx.key}:paid")


def tax_of(ctx: Context, what: str) -> int:
    """Its tax."""
    return _place(ctx, what)[0]


def pay_at(ctx: Context, what: str, amount: int) -> list:
    """Adds a payment; returns name and address."""
    _, name, address = _place(ctx, what)
    ctx.state.put(paid_at(ctx) + amount, key=f"{ctx.key}:paid")
    return [name, address]


def paid_at(ctx: Context) -> int:
    """What was paid there so far."""
    return ctx.state.get(f"{ctx.key}:paid") or 0


def _place(ctx: Context, what: str) -> list:
    place = ctx.state.get()
    if place is None:
        raise LookupError(f"there is no {what} {ctx.key}")
    return place
