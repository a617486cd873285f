"""A shopping cart (Styx, Figure 3), with the synchronous call instead of continuations.

`stock` is implemented in Rust by the other component of this app; it is called
by name, inside the same transaction.
"""

from dataclasses import dataclass, field

from styx import Context, Operator

order = Operator("order", doc="Carts, by order id.")
user = Operator("user", doc="Customers and their credit, by user id.")

STOCK = "stock"


@dataclass
class Cart:
    """What is in the cart, what it costs and whether it was paid."""

    items: dict[str, int] = field(default_factory=dict)
    total: int = 0
    paid_by: str | None = None


def _open_cart(ctx: Context) -> Cart:
    cart = ctx.state.get(as_type=Cart) or Cart()
    if cart.paid_by is not None:
        raise ValueError(f"order {ctx.key} is paid already")
    return cart


@order.register
def add_item(ctx: Context, item_id: str, quantity: int) -> Cart:
    """Takes items out of stock and puts them into the cart; raises if there are not enough."""
    if quantity < 1:
        raise ValueError(f"the quantity must be at least 1, it is {quantity}")
    cart = _open_cart(ctx)
    cost = ctx.call(STOCK, item_id, "take", quantity)
    cart.items[item_id] = cart.items.get(item_id, 0) + quantity
    cart.total += cost
    ctx.state.put(cart)
    return cart


@order.register
def checkout(ctx: Context, user_id: str) -> Cart:
    """Pays the cart from the user's credit; raises if that does not suffice."""
    cart = _open_cart(ctx)
    if not cart.items:
        raise ValueError(f"order {ctx.key} is empty")
    ctx.call(user, user_id, pay, cart.total)
    cart.paid_by = user_id
    ctx.state.put(cart)
    return cart


@order.register(read_only=True)
def get(ctx: Context) -> Cart:
    """The cart."""
    return ctx.state.get(as_type=Cart) or Cart()


@user.register(name="create")
def create_user(ctx: Context, credit: int = 0) -> int:
    """Registers a customer."""
    ctx.state.put({"credit": credit})
    return credit


@user.register
def add_credit(ctx: Context, amount: int) -> int:
    """Adds to the credit and returns it."""
    if amount < 0:
        raise ValueError("the amount must not be negative")
    account = ctx.state.get() or {"credit": 0}
    account["credit"] += amount
    ctx.state.put(account)
    return account["credit"]


@user.register
def pay(ctx: Context, amount: int) -> int:
    """Takes from the credit; raises if it would become negative. Returns what is left."""
    account = ctx.state.get() or {"credit": 0}
    if account["credit"] < amount:
        raise ValueError(f"user {ctx.key} has a credit of {account['credit']}, but {amount} is due")
    account["credit"] -= amount
    ctx.state.put(account)
    return account["credit"]


@user.register(read_only=True)
def credit(ctx: Context) -> int:
    """The credit."""
    return (ctx.state.get() or {"credit": 0})["credit"]
