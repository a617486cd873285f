"""Terminals: where the five transactions begin."""

import customer
import history
import item
import order
import order_line
import stock
import warehouse
from keys import line_key, numbers, own_id
from styx import Context, Operator

terminal = Operator(
    "terminal", key_prefix="warehouse", doc="Terminals, by `warehouse:district`: the five transactions."
)

#: A warehouse has so many districts.
DISTRICTS = 10
#: Stock levels are those of the items in so many orders.
NEWEST_ORDERS = 20


@terminal.register
def new_order(ctx: Context, customer_id: int, lines: list[list]) -> dict:
    """Orders lines [item, supplying warehouse, quantity]; raises if there is no such item."""
    own_warehouse, district = numbers(ctx.key)
    warehouse_tax = ctx.call(warehouse.warehouse, str(own_warehouse), warehouse.tax_warehouse)
    district_tax = ctx.call(warehouse.district, ctx.key, warehouse.tax_district)
    last, credit, discount = ctx.call(customer.customer, f"{ctx.key}:{customer_id}", customer.terms)

    all_local = all(supplier == own_warehouse for _, supplier, _ in lines)
    id, number = ctx.call(order.order, ctx.key, order.insert_order, customer_id, len(lines), all_local)
    key = f"{ctx.key}:{id}"
    ctx.call_async(order.new_order, key, order.insert_new_order)

    total, shown = 0, []
    for line, (item_id, supplier, quantity) in enumerate(lines, 1):
        price, name, is_original = ctx.call(item.item, str(item_id), item.get)
        left, text, is_original_too = ctx.call(
            stock.stock, f"{supplier}:{item_id}", stock.take, quantity, district, supplier != own_warehouse
        )
        amount = price * quantity
        ctx.call_async(
            order_line.order_line,
            line_key(key, line),
            order_line.insert,
            item_id,
            supplier,
            quantity,
            amount,
            text,
        )
        total += amount
        shown.append([name, left, "B" if is_original and is_original_too else "G", price, amount])
    return {
        "order": number,
        "entered": ctx.time_us,
        "last": last,
        "credit": credit,
        "discount": discount,
        "warehouse_tax": warehouse_tax,
        "district_tax": district_tax,
        # In cents, with discount and taxes.
        "total": total * (10_000 - discount) * (10_000 + warehouse_tax + district_tax) // 100_000_000,
        "lines": shown,
    }


@terminal.register
def payment(ctx: Context, home_warehouse: int, home_district: int, customer_id: int | str, amount: int) -> dict:
    """Takes cents from a customer, who may belong to another warehouse."""
    own_warehouse, own_district = numbers(ctx.key)
    at_warehouse = ctx.call(warehouse.warehouse, str(own_warehouse), warehouse.pay_warehouse, amount)
    at_district = ctx.call(warehouse.district, ctx.key, warehouse.pay_district, amount)
    home = f"{home_warehouse}:{home_district}"
    number = _find(ctx, home, customer_id)
    shown = ctx.call(customer.customer, f"{home}:{number}", customer.pay, amount, own_warehouse, own_district)
    data = f"{at_warehouse[0]}    {at_district[0]}"
    ctx.call_async(history.history, f"{ctx.key}:{own_id(ctx)}", history.insert, amount, data)
    return {"amount": amount, "warehouse": at_warehouse, "district": at_district, "customer": shown}


@terminal.register(read_only=True)
def order_status(ctx: Context, customer_id: int | str) -> dict:
    """The newest order of a customer of the terminal's district."""
    number = _find(ctx, ctx.key, customer_id)
    balance, first, last = ctx.call(customer.customer, f"{ctx.key}:{number}", customer.status)
    newest = ctx.call(order.order, ctx.key, order.latest, number)
    if newest is not None:
        id, order_number, entered, carrier = newest
        lines = ctx.call(order_line.order_line, f"{ctx.key}:{id}", order_line.of_order)
        newest = {"order": order_number, "entered": entered, "carrier": carrier, "lines": lines}
    return {
        "customer": number,
        "first": first,
        "middle": customer.MIDDLE,
        "last": last,
        "balance": balance,
        "order": newest,
    }


@terminal.register
def delivery(ctx: Context, carrier: int) -> list:
    """Delivers the oldest new order of each of the warehouse's districts: their numbers, null where there was none."""
    own_warehouse, _ = numbers(ctx.key)
    delivered = []
    for district in range(1, DISTRICTS + 1):
        district_key = f"{own_warehouse}:{district}"
        id = ctx.call(order.new_order, district_key, order.pop)
        if id is None:
            delivered.append(None)
            continue
        key = f"{district_key}:{id}"
        number, customer_id = ctx.call(order.order, key, order.deliver, carrier)
        cost = ctx.call(order_line.order_line, key, order_line.deliver)
        ctx.call_async(customer.customer, f"{district_key}:{customer_id}", customer.deliver, cost)
        delivered.append(number)
    return delivered


@terminal.register(read_only=True)
def stock_level(ctx: Context, threshold: int) -> int:
    """How many items of the district's twenty newest orders are fewer than the threshold in stock."""
    own_warehouse, _ = numbers(ctx.key)
    id = ctx.call(order.order, ctx.key, order.newest, NEWEST_ORDERS)
    if id is None:
        return 0
    items = ctx.call(order_line.order_line, ctx.key, order_line.items_since, id)
    return ctx.call(stock.stock, f"{own_warehouse}:0", stock.low, items, threshold)


def _find(ctx: Context, district: str, customer_id: int | str) -> int:
    if isinstance(customer_id, int):
        return customer_id
    return ctx.call(customer.customer_name, f"{district}:{customer_id}", customer.middle)
