"""Buys at the shop: an app that another one needs."""

from styx import Context, Operator

buyer = Operator("buyer")


@buyer.register
def buy(ctx: Context, item: str, pieces: int) -> int:
    """Buys so many pieces of an item, and says what they cost."""
    return ctx.call("shop/stock", item, "take", pieces)
