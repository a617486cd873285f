"""TPC-C: a wholesale supplier's warehouses, districts, customers, stock and orders.

All five transactions begin at a `terminal`, which keeps nothing itself and calls what it needs: one
entity per row of the specification's tables. Every key but an item's begins with its warehouse
(`7:3:42` is customer 42 of district 3 of warehouse 7), so that a warehouse lives in one place and
scans of it stay there. The Rust guest of the same workload has the same names and gives the same
replies.

Money is in cents, rates are in hundredths of a percent: whole numbers, alike in every language. What
changes often has an entity apart from what hardly ever does, so that a new order, which reads the
warehouse's tax, is in no payment's way. No call's key or arguments depend on what other transactions
change, but for those of a delivery. So orders and payments that meet can run again behind each other,
within their locks.
"""

from customer import customer, customer_name
from history import history
from item import item
from order import new_order, order
from order_line import order_line
from stock import stock
from terminal import terminal
from warehouse import district, warehouse

__all__ = [
    "customer",
    "customer_name",
    "district",
    "history",
    "item",
    "new_order",
    "order",
    "order_line",
    "stock",
    "terminal",
    "warehouse",
]
