"""YCSB-T (Styx, section 9.1): accounts, and transfers between two of them.

The state of an account is its balance, a plain number, so that the SDK and the
call are what a benchmark measures. The Rust guest of the same workload has the
same names and gives the same results.
"""

from styx import Context, Operator

account = Operator("account", doc="Accounts, by number.")

BALANCE = 1_000_000


def _balance(ctx: Context) -> int:
    balance = ctx.state.get()
    if balance is None:
        raise LookupError(f"there is no account {ctx.key}")
    return balance


@account.register
def insert(ctx: Context, balance: int = BALANCE) -> None:
    """Opens the account, or sets its balance."""
    ctx.state.put(balance)


@account.register
def create(ctx: Context, balance: int = BALANCE) -> None:
    """The same as `insert`."""
    ctx.state.put(balance)


@account.register(read_only=True)
def read(ctx: Context) -> int:
    """The balance."""
    return _balance(ctx)


@account.register
def update(ctx: Context) -> int:
    """Adds 1 and returns the balance."""
    balance = _balance(ctx) + 1
    ctx.state.put(balance)
    return balance


@account.register
def credit(ctx: Context) -> None:
    """The receiving half of a transfer: adds 1."""
    ctx.state.put(_balance(ctx) + 1)


@account.register
def transfer(ctx: Context, to_key: str) -> int:
    """Moves 1 to another account and returns the own balance; raises if that would be negative."""
    if to_key == ctx.key:
        raise ValueError("a transfer needs two accounts")
    balance = _balance(ctx)
    ctx.call(account, to_key, credit)
    if balance < 1:
        raise ValueError(f"account {ctx.key} has nothing left")
    ctx.state.put(balance - 1)
    return balance - 1


@account.register
def transfer_async(ctx: Context, to_key: str) -> int:
    """The same with an asynchronous call, which runs when this function has returned."""
    if to_key == ctx.key:
        raise ValueError("a transfer needs two accounts")
    balance = _balance(ctx)
    ctx.call_async(account, to_key, credit)
    if balance < 1:
        raise ValueError(f"account {ctx.key} has nothing left")
    ctx.state.put(balance - 1)
    return balance - 1
