"""Warehouses and their districts."""

from place import open_place, paid_at, pay_at, tax_of
from styx import Context, Operator

warehouse = Operator("warehouse", key_prefix="warehouse", doc="Warehouses, by number.")
district = Operator("district", key_prefix="warehouse", doc="Districts, by `warehouse:district`.")


@warehouse.register(name="insert")
def insert_warehouse(ctx: Context, name: str, address: list[str], tax: int, paid: int) -> None:
    """Opens a warehouse; the address is a list of street, street, city, state and zip."""
    open_place(ctx, name, address, tax, paid)


@warehouse.register(name="tax", read_only=True)
def tax_warehouse(ctx: Context) -> int:
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
def insert_district(ctx: Context, name: str, address: list[str], tax: int, paid: int) -> None:
    """Opens a district."""
    open_place(ctx, name, address, tax, paid)


@district.register(name="tax", read_only=True)
def tax_district(ctx: Context) -> int:
    """The tax, in hundredths of a percent."""
    return tax_of(ctx, "district")


@district.register(name="pay")
def pay_district(ctx: Context, amount: int) -> list:
    """Adds a payment; returns name and address."""
    return pay_at(ctx, "district", amount)


@district.register(name="audit", read_only=True)
def audit_district(ctx: Context) -> list:
    """What was paid in all: [tax, cents]."""
    return [tax_of(ctx, "district"), paid_at(ctx)]
