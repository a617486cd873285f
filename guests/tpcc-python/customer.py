"""Customers, and the way to find them by their last names.

What hardly changes of a customer is under its key, what every payment changes under `…:account`, and
the data field, which only payments of bad credit change, under `…:data`.
"""

from keys import numbers, page
from styx import Context, Operator

customer = Operator("customer", key_prefix="warehouse", doc="Customers, by `warehouse:district:customer`.")
customer_name = Operator(
    "customer_name", key_prefix="warehouse", doc="Customers of one last name, by `warehouse:district:NAME`."
)

MIDDLE = "OE"
#: In cents, like every amount.
CREDIT_LIMIT = 5_000_000
FIRST_PAYMENT = 1_000
#: Characters of the data field, which the newest payments of bad customers fill.
DATA_MAX = 500
#: Those that are shown.
DATA_SHOWN = 200


@customer.register(name="fill")
def fill_customers(ctx: Context, rows: list[dict]) -> None:
    """Adds customers from the key's on."""
    warehouse, district, first = numbers(ctx.key)
    for number, row in enumerate(rows, first):
        key = f"{warehouse}:{district}:{number}"
        data = row.pop("data")
        ctx.state.put({**row, "since": ctx.time_us}, key=key)
        # Balance, what was paid, payments, deliveries.
        ctx.state.put([-FIRST_PAYMENT, FIRST_PAYMENT, 1, 0], key=f"{key}:account")
        ctx.state.put(data, key=f"{key}:data")


@customer.register(read_only=True)
def terms(ctx: Context) -> list:
    """What a new order needs: [last name, credit, discount in hundredths of a percent]."""
    profile = _profile(ctx)
    return [profile["last"], profile["credit"], profile["discount"]]


@customer.register
def pay(ctx: Context, amount: int, warehouse: int, district: int) -> dict:
    """Pays; returns what is shown."""
    profile = _profile(ctx)
    account = _account(ctx)
    account[0] -= amount
    account[1] += amount
    account[2] += 1
    ctx.state.put(account, key=f"{ctx.key}:account")
    own_warehouse, own_district, number = numbers(ctx.key)
    data = None
    if profile["credit"] != "GC":
        key = f"{ctx.key}:data"
        data = f"{number} {own_district} {own_warehouse} {district} {warehouse} {amount}|{ctx.state.get(key) or ''}"
        data = data[:DATA_MAX]
        ctx.state.put(data, key=key)
        data = data[:DATA_SHOWN]
    return {
        "customer": number,
        "middle": MIDDLE,
        **profile,
        "credit_limit": CREDIT_LIMIT,
        "balance": account[0],
        "data": data,
    }


@customer.register
def deliver(ctx: Context, amount: int) -> None:
    """Takes an order that was delivered: what it costs is added to the balance."""
    account = _account(ctx)
    account[0] += amount
    account[3] += 1
    ctx.state.put(account, key=f"{ctx.key}:account")


@customer.register(read_only=True)
def status(ctx: Context) -> list:
    """[balance, first name, last name]."""
    profile = _profile(ctx)
    return [_account(ctx)[0], profile["first"], profile["last"]]


@customer.register(read_only=True)
def audit(ctx: Context, after: str | None, limit: int) -> list:
    """A page of the key's district: [rows, then the sums of balances, of what was paid, of payments
    and of deliveries, and bytes of data; last key or null]. A customer has three rows.
    """
    entries, following = page(ctx, f"{ctx.key}:", after, limit)
    sums = [0, 0, 0, 0, 0]
    for key, row in entries:
        if key.endswith(":account"):
            sums[:4] = [a + b for a, b in zip(sums, row)]
        elif key.endswith(":data"):
            sums[4] += len(row)
    return [len(entries), sums, following]


def _profile(ctx: Context) -> dict:
    profile = ctx.state.get()
    if profile is None:
        raise LookupError(f"there is no customer {ctx.key}")
    return profile


def _account(ctx: Context) -> list:
    account = ctx.state.get(f"{ctx.key}:account")
    if account is None:
        raise LookupError(f"there is no customer {ctx.key}")
    return account


@customer_name.register(name="fill")
def fill_names(ctx: Context, names: list[list]) -> None:
    """Adds names of the key's district, each with its customers in the order of their first names."""
    for name, customers in names:
        ctx.state.put(customers, key=f"{ctx.key}:{name}")


@customer_name.register(read_only=True)
def middle(ctx: Context) -> int:
    """The customer in the middle; of an even number the one before it."""
    customers = ctx.state.get()
    if not customers:
        raise LookupError(f"there is no customer of the name {ctx.key}")
    return customers[(len(customers) + 1) // 2 - 1]
