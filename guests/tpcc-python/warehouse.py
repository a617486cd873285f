"""Warehouses and their districts."""

from place import open_place, paid_at, pay_at, tax_of
from styx import Context, Operator

warehouse = Operator("warehouse", key_prefix="warehouse", doc="Warehouses, by number.")
district = Operator(
    "district", key_prefix="warehouse", doc="Districts, by `warehouse:district`. They number their orders."
)


@warehouse.register(name="insert")
def insert_warehouse(ctx: Context, name: str, address: list[str], tax: int, paid: int) -> None:
    """Opens a warehouse; the address is a list of street, street, city, state and zip."""
    open_place(ctx, name, address, tax, paid)


@warehouse.register(read_only=True)
def tax(ctx: Context) -> int:
    """The tax, in hundredths of a percent."""
    return tax_of(ctx, "warehouse")


@warehouse.register(name="pay")
def pay_warehouse(ctx: Context, amount: int) -> list:
    """Adds a payment; returns name and address."""
    return pay_at(ctx, "warehouse", amount)


@warehouse.register(name="audit", read_only=True)
def audit_warehouse(ctx: Context) -> list:
    """What was paid in all: [tax, cents]."""
    return [tax_of(ctx, "warehouse"), paid_at(ctx)]


@district.register(name="insert")
def insert_district(ctx: Context, name: str, address: list[str], tax: int, paid: int, next_order: int) -> None:
    """Opens a district; the next order has this number."""
    open_place(ctx, name, address, tax, paid)
    ctx.state.put(next_order, key=f"{ctx.key}:next")


@district.register
def next_order(ctx: Context) -> list:
    """Takes the number of a new order: [tax, number]."""
    tax = tax_of(ctx, "district")
    number = _next(ctx)
    ctx.state.put(number + 1, key=f"{ctx.key}:next")
    return [tax, number]


@district.register(read_only=True)
def orders_end(ctx: Context) -> int:
    """The number that the next order will have."""
    return _next(ctx)


@district.register(name="pay")
def pay_district(ctx: Context, amount: int) -> list:
    """Adds a payment; returns name and address."""
    return pay_at(ctx, "district", amount)


@district.register(name="audit", read_only=True)
def audit_district(ctx: Context) -> list:
    """What was paid, and the number of the next order: [tax, cents, number]."""
    return [tax_of(ctx, "district"), paid_at(ctx), _next(ctx)]


def _next(ctx: Context) -> int:
    return ctx.state.get(f"{ctx.key}:next") or 0
