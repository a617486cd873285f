"""Calls between apps, on the in-memory host."""

import pytest

from styx import CallFailed, Context, Operator
from styx.testing import Host

shop, account, rates = Operator("order"), Operator("account"), Operator("rates")
mill = Operator("order")


@shop.register
def pay(ctx: Context, operator: str, function: str, cents: int) -> object:
    ctx.state.put(cents)
    ctx.call_async(operator, "late", "charge", 1)
    return ctx.call(operator, "ann", function, cents)


@account.register
def charge(ctx: Context, cents: int) -> list:
    ctx.state.put((ctx.state.get() or 0) - cents)
    if cents > 100:
        raise ValueError(f"{ctx.key} has not as much")
    return [ctx.app, ctx.call("rates", "usd", "rate"), ctx.state.get()]


@rates.register(read_only=True)
def rate(ctx: Context) -> int:
    return 7


@mill.register(name="charge")
def mill_charge(ctx: Context, cents: int) -> str:
    return f"{ctx.app} {cents}"

def aborted(host, operator, key, function, *args):
    with pytest.raises(CallFailed) as failed:
        host.call(operator, key, function, *args)
    return failed.value.code, failed.value.message


def test_operators_of_other_apps():
    host = Host(shop, app="shop", apps={"billing": [account, rates], "mill": [mill]})
    assert host.call(shop, "o", pay, "billing/account", "charge", 5) == ["billing", 7, -5]
    assert host.calls == [
        ("order", "o", "pay"),
        ("billing/account", "ann", "charge"),
        ("billing/rates", "usd", "rate"),
        ("billing/account", "late", "charge"),
        ("billing/rates", "usd", "rate"),
    ]
    assert (host.get("billing/account", "ann"), host.get("account", "ann")) == (-5, None)
    # An app is asked by its own name too; each has operators of its own.
    assert host.call("shop/order", "o", "pay", "mill/order", "charge", 2) == "mill 2"
    assert aborted(host, "order", "p", "pay", "billing/account", "charge", 500) == ("ABORTED", "ann has not as much")
    assert host.get("order", "p") is None and host.get("billing/account", "ann") == -5
    for operator, function, message in [
        ("billing/account", "refund", 'operator "billing/account" has no function "refund"'),
        (
            "bank/account",
            "charge",
            'there is no operator "bank/account": give it to Host(..., apps={"bank": [...]})',
        ),
        ("account", "charge", 'there is no operator "account": give it to Host(...)'),
    ]:
        code, told = aborted(host, "order", "p", "pay", operator, function, 1)
        assert (code, told) == ("GUEST_EXCEPTION", f"order.pay called nobody: {message}")
