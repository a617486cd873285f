"""What comes back: results with their place in the order of transactions, ends of sends, entities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ._error import Error


@dataclass(frozen=True)
class Reply:
    """What a function returned.

    ``tid`` and ``epoch`` say where its transaction stands in the one order of all; a reply of a read-only function has
    no TID. A result that is no JSON is ``bytes``. ``replayed``: another request was under its idempotency key before, a
    repetition of this client's own included, and this is that one's answer.
    """

    value: Any
    tid: int | None = None
    epoch: int | None = None
    replayed: bool = False


@dataclass(frozen=True)
class Ended:
    """How far a request is that was sent: ``pending``, ``committed`` or ``aborted``."""

    request_id: str
    status: str
    result: Any = None
    error: Error | None = None
    tid: int | None = None
    epoch: int | None = None

    def value(self) -> Any:
        """The result; raises the error of a request that was aborted, and :class:`TimeoutError` while it is pending."""
        if self.error is not None:
            raise self.error
        if self.status == "pending":
            raise TimeoutError(f"request {self.request_id} has not ended yet")
        return self.result


@dataclass(frozen=True)
class Entity:
    """A key of an operator, and what is stored there."""

    key: str
    value: Any
