"""How often, and after which pauses, a request is repeated."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, wait_exponential, wait_random

from ._error import Error

T = TypeVar("T")


@dataclass(frozen=True)
class Retry:
    """Exponential pauses with randomness, for a bounded time. All in seconds.

    A server's ``Retry-After`` is a lower bound of the next pause.
    """

    first: float = 0.02
    longest: float = 2.0
    #: For how long attempts are begun, counted from the first; 0: there is one only.
    patience: float = 60.0

    @classmethod
    def never(cls) -> Retry:
        """The first error is the caller's."""
        return cls(patience=0.0)

    async def run(self, attempt: Callable[[], Awaitable[T]], *, has_key: bool) -> T:
        """Awaits attempts until one has an end that may not be repeated; ``has_key``: it cannot happen twice."""
        grows = wait_exponential(multiplier=self.first, max=self.longest) + wait_random(0, self.first)

        def pause(state: RetryCallState) -> float:
            error = state.outcome.exception() if state.outcome else None
            asked = error.retry_after if isinstance(error, Error) and error.retry_after else 0.0
            return max(grows(state), asked)

        def is_over(state: RetryCallState) -> bool:
            return (state.seconds_since_start or 0.0) + state.upcoming_sleep >= self.patience

        def is_repeatable(error: BaseException) -> bool:
            return isinstance(error, Error) and error.is_repeatable(has_key)

        attempts = AsyncRetrying(retry=retry_if_exception(is_repeatable), wait=pause, stop=is_over, reraise=True)
        return await attempts(attempt)
