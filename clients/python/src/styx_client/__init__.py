"""Call transactional functions on Styx.

:class:`Client` is for threads, :class:`AsyncClient` for asyncio. Both keep one WebSocket with all calls under way, give each
call an idempotency key, and ask again, under that key, what a broken connection or a busy server left open: a call happens once.
"""

from ._async import AsyncClient, AsyncEntity
from ._error import Error
from ._reply import Ended, Entity, Reply
from ._retry import Retry
from ._sync import Client, SyncEntity

__all__ = ["AsyncClient", "AsyncEntity", "Client", "Ended", "Entity", "Error", "Reply", "Retry", "SyncEntity"]
