"""A shopping cart whose checkout is one transaction (Styx, Figure 3): stock of every item and credit of
the user, or nothing of it.

An order stays as it is when it was checked out and may be checked out again, so that a benchmark never
runs out of orders before stock or credit does. The Rust guest of the same workload has the same names
and gives the same replies.
"""

from styx import Context, Operator

user = Operator("user", doc="Customers and their credit, by user id.")
item = Operator("item", doc="Items in stock, by item id.")
order = Operator("order", doc="Carts, by order id.")


@user.register(name="insert")
def insert_user(ctx: Context, credit: int) -> None:
    """Registers a customer, or sets the credit."""
    ctx.state.put(credit)


@user.register
def pay(ctx: Context, amount: int) -> None:
    """Takes from the credit; raises if it would become negative."""
    credit = ctx.state.get()
    if credit is None:
        raise LookupError(f"there is no user {ctx.key}")
    if credit < amount:
        raise ValueError(f"user {ctx.key} has a credit of {credit}, but {amount} is due")
    ctx.state.put(credit - amount)


@user.register(name="audit", read_only=True)
def audit_users(ctx: Context, after: str | None, limit: int) -> list:
    """A page of all users: [users, sum of their credit, last key of the page or null]."""
    page, following = _page(ctx, after, limit)
    return [len(page), sum(page), following]


@item.register(name="insert")
def insert_item(ctx: Context, stock: int, price: int) -> None:
    """Sets how many there are and what one costs."""
    ctx.state.put([stock, price])


@item.register
def take(ctx: Context, quantity: int) -> None:
    """Takes so many; raises if there are not enough."""
    shelf = ctx.state.get()
    if shelf is None:
        raise LookupError(f"there is no item {ctx.key}")
    if shelf[0] < quantity:
        raise ValueError(f"not enough of item {ctx.key}")
    shelf[0] -= quantity
    ctx.state.put(shelf)


@item.register(name="audit", read_only=True)
def audit_items(ctx: Context, after: str | None, limit: int) -> list:
    """A page of all items: [items, pieces in stock, what all of them cost, last key of the page or null]."""
    page, following = _page(ctx, after, limit)
    return [len(page), sum(stock for stock, _ in page), sum(stock * price for stock, price in page), following]


@order.register(name="insert")
def insert_order(ctx: Context, user: str, lines: list[list]) -> None:
    """Fills a cart for a user with lines [item, quantity, price of one]."""
    ctx.state.put({"user": user, "lines": lines, "checkouts": 0})


@order.register
def checkout(ctx: Context) -> int:
    """Takes every item out of stock and has the user pay: returns the price, or raises if anything would
    become negative.
    """
    cart = ctx.state.get()
    if cart is None:
        raise LookupError(f"there is no order {ctx.key}")
    for item_id, quantity, _ in cart["lines"]:
        ctx.call_async(item, item_id, take, quantity)
    total = _total(cart)
    ctx.call_async(user, cart["user"], pay, total)
    cart["checkouts"] += 1
    ctx.state.put(cart)
    return total


@order.register(name="audit", read_only=True)
def audit_orders(ctx: Context, after: str | None, limit: int) -> list:
    """A page of all orders: [orders, checkouts, pieces that were bought, what was paid, last key of the page
    or null].
    """
    page, following = _page(ctx, after, limit)
    checkouts = sum(cart["checkouts"] for cart in page)
    pieces = sum(cart["checkouts"] * quantity for cart in page for _, quantity, _ in cart["lines"])
    paid = sum(cart["checkouts"] * _total(cart) for cart in page)
    return [len(page), checkouts, pieces, paid, following]


def _total(cart: dict) -> int:
    return sum(quantity * price for _, quantity, price in cart["lines"])


def _page(ctx: Context, after: str | None, limit: int) -> tuple[list, str | None]:
    """Values; and the last key, with which the next page begins, if this one is full."""
    entries = [*ctx.state.scan(after=after, limit=limit)]
    return [value for _, value in entries], entries[-1][0] if entries and len(entries) == limit else None
