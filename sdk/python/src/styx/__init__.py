"""Styx: plain functions on keyed entities, run as serializable transactions.

A module declares operators and registers functions with them; everything else
(locks, retries, exactly-once) is the host's business::

    from styx import Context, Operator

    account = Operator("account")

    @account.register
    def deposit(ctx: Context, amount: int) -> int:
        balance = (ctx.state.get() or 0) + amount
        ctx.state.put(balance)
        return balance
"""

from styx.context import AsyncContext, Context
from styx.entities import Entity, entity, method
from styx.entity_operator import AlreadyExists, NotFound
from styx.errors import Abort, CallFailed, DefinitionError, StyxError
from styx.operator import Operator
from styx.state import State

__version__ = "0.2.0"

__all__ = [
    "Abort",
    "AlreadyExists",
    "AsyncContext",
    "CallFailed",
    "Context",
    "DefinitionError",
    "Entity",
    "NotFound",
    "Operator",
    "State",
    "StyxError",
    "__version__",
    "entity",
    "method",
]
