"""YCSB-T (Styx, section 9.1): accounts, and transfers between two of them; and the records of its
migrations, which are larger.

The state of an account is its balance, a plain number, so that the SDK and the
call are what a benchmark measures. The Rust guest of the same workload has the
same names and gives the same results.
"""

from styx import Context, Operator

account = Operator("account", doc="Accounts with a balance.")
member = Operator("member", key_prefix="group", doc="Accounts of a group.")
record = Operator("record", doc="Records of fields.")


def _balance(ctx: Context) -> int:
    balance = ctx.state.get()
    if balance is None:
        raise LookupError(f"there is no account {ctx.key}")
    return balance


@member.register
@account.register
def insert(ctx: Context, balance: int) -> None:
    """Opens the account, or sets its balance."""
    ctx.state.put(balance)


@member.register(read_only=True)
@account.register(read_only=True)
def read(ctx: Context) -> int:
    """The balance."""
    return _balance(ctx)


@member.register
@account.register
def update(ctx: Context) -> int:
    """Adds 1 and returns the balance."""
    balance = _balance(ctx) + 1
    ctx.state.put(balance)
    return balance


@member.register
@account.register
def credit(ctx: Context) -> None:
    """The receiving half of a transfer: adds 1."""
    ctx.state.put(_balance(ctx) + 1)


@account.register
def transfer(ctx: Context, to: str) -> int:
    """Moves 1 to another account and returns the own balance; raises if that would be negative."""
    return _transfer(ctx, account, to)


@member.register(name="transfer")
def transfer_to_member(ctx: Context, to: str) -> int:
    """Moves 1 to another member and returns the own balance; raises if that would be negative."""
    return _transfer(ctx, member, to)


def _transfer(ctx: Context, operator: Operator, to: str) -> int:
    if to == ctx.key:
        raise ValueError("a transfer needs two accounts")
    balance = _balance(ctx)
    ctx.call(operator, to, credit)
    if balance < 1:
        raise ValueError(f"account {ctx.key} has nothing left")
    ctx.state.put(balance - 1)
    return balance - 1


@account.register
def transfer_async(ctx: Context, to: str) -> int:
    """The same with an asynchronous call, which runs when this function has returned."""
    if to == ctx.key:
        raise ValueError("a transfer needs two accounts")
    balance = _balance(ctx)
    ctx.call_async(account, to, credit)
    if balance < 1:
        raise ValueError(f"account {ctx.key} has nothing left")
    ctx.state.put(balance - 1)
    return balance - 1


@account.register(name="sum", read_only=True)
def sum_of_balances(ctx: Context, after: str | None, limit: int) -> list:
    """A page of all accounts: [accounts, sum of their balances, last key of the page or null]."""
    page = [*ctx.state.scan(after=after, limit=limit)]
    return [len(page), sum(balance for _, balance in page), _next_page(page, limit)]


@member.register(name="sum", read_only=True)
def sum_of_group(ctx: Context, after: str | None, limit: int) -> list:
    """A page of the group: [accounts, sum of their balances, last key of the page or null]."""
    group = ctx.key.split(":")[0]
    page = [*ctx.state.scan(prefix=f"{group}:", after=after, limit=limit)]
    return [len(page), sum(balance for _, balance in page), _next_page(page, limit)]


@record.register(name="insert")
def insert_record(ctx: Context, fields: list[str]) -> None:
    """Adds the record, or replaces it."""
    ctx.state.put(fields)


@record.register(name="read", read_only=True)
def read_record(ctx: Context) -> list[str]:
    """All fields."""
    return _fields(ctx)


@record.register(name="update")
def update_record(ctx: Context, field: int, value: str) -> None:
    """Replaces a field."""
    fields = _fields(ctx)
    if not 0 <= field < len(fields):
        raise IndexError(f"record {ctx.key} has no field {field}")
    fields[field] = value
    ctx.state.put(fields)


@record.register(read_only=True)
def count(ctx: Context, after: str | None, limit: int) -> list:
    """A page of all records: [records, bytes of their fields, last key of the page or null]."""
    page = [*ctx.state.scan(after=after, limit=limit)]
    return [len(page), sum(len(field.encode()) for _, fields in page for field in fields), _next_page(page, limit)]


def _fields(ctx: Context) -> list[str]:
    fields = ctx.state.get()
    if fields is None:
        raise LookupError(f"there is no record {ctx.key}")
    return fields


def _next_page(page: list, limit: int) -> str | None:
    """The last key of a full page: with it the next begins. A page that is not full is the last."""
    return page[-1][0] if page and len(page) == limit else None
