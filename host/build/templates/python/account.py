"""Accounts, and money that goes from one to another."""

import styx
from styx import Context, Operator

account = Operator("account", doc="Accounts by their owner; the value is the balance.")


class InsufficientFunds(styx.Abort):
    """Clients get the code as `app_code`."""

    code = "INSUFFICIENT_FUNDS"


@account.register
def deposit(ctx: Context, amount: int) -> int:
    """Adds to the balance, and returns it."""
    if amount <= 0:
        raise ValueError("an amount is positive")  # aborts the whole transaction
    balance = (ctx.state.get() or 0) + amount
    ctx.state.put(balance)
    return balance


@account.register
def transfer(ctx: Context, to: str, amount: int) -> int:
    """Moves money to another account: both change, or neither."""
    ctx.call(account, to, deposit, amount)
    balance = (ctx.state.get() or 0) - amount
    if balance < 0:
        raise InsufficientFunds(f"{ctx.key} is short of {-balance}")
    ctx.state.put(balance)
    return balance


@account.register(read_only=True)
def balance(ctx: Context) -> int:
    """What is there."""
    return ctx.state.get() or 0
