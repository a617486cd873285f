"""What the tests of the console call: stock and orders, and a drawer for values of any kind."""

from typing import Any, Literal

from styx import Context, Operator

stock = Operator("stock")
order = Operator("order")
drawer = Operator("drawer")
ledger = Operator("ledger")


@stock.register
def put(ctx: Context, pieces: int, price: int = 100) -> None:
    """Puts so many pieces of an item on the shelf."""
    ctx.state.put({"pieces": pieces, "price": price})


@stock.register
def take(ctx: Context, pieces: int) -> int:
    """Takes pieces off the shelf, and says what they cost."""
    item = ctx.state.get()
    if item is None or item["pieces"] < pieces:
        raise ValueError(f"not enough {ctx.key}")
    item["pieces"] -= pieces
    ctx.state.put(item)
    return item["price"] * pieces


@stock.register(read_only=True)
def look(ctx: Context) -> dict[str, int] | None:
    """What is on the shelf."""
    return ctx.state.get()


@ledger.register
def note(ctx: Context, by: str) -> None:
    """Notes who wanted an item last."""
    ctx.state.put(by)


@order.register
def buy(ctx: Context, items: dict[str, int], express: bool = False, pay: Literal["card", "cash"] = "card") -> int:
    """Buys some of each item, or nothing at all."""
    ctx.log.info("%s wants %d kinds", ctx.key, len(items))
    for item in items:
        ctx.call_async(ledger, item, note, ctx.key)
    total = sum(ctx.call(stock, item, take, pieces) for item, pieces in items.items())
    ctx.state.put({"items": items, "total": total, "express": express, "pay": pay})
    return total


@drawer.register
def keep(ctx: Context, value: Any) -> Any:
    """Keeps anything."""
    ctx.state.put(value)
    return value


@drawer.register
def fill(ctx: Context, count: int, letter: str = "x") -> int:
    """Keeps so many letters."""
    ctx.state.put(letter * count)
    return count


@drawer.register
def refuse(ctx: Context, why: str) -> None:
    """Refuses, with a message."""
    raise ValueError(why)
