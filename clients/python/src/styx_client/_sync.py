"""The client for threads: that for asyncio, on a loop of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from concurrent.futures import Future
from types import TracebackType
from typing import Any, TypeVar

from ._async import Arguments, AsyncClient
from ._reply import Ended, Entity, Reply
from ._retry import Retry

T = TypeVar("T")


class Client:
    """A client of one server or cluster, for any number of threads. Use it as ``with``, or :meth:`close` it.

    Settings and methods are those of :class:`AsyncClient`. :meth:`begin` starts a call and returns a future, so that one
    thread has many calls under way.
    """

    def __init__(
        self,
        ingress_url: str = "http://127.0.0.1:8080",
        *,
        admin_url: str | None = None,
        token: str | None = None,
        ca: str | None = None,
        timeout: float = 60.0,
        retry: Retry = Retry(),
    ) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="styx-client", daemon=True)

        async def connect() -> AsyncClient:
            return AsyncClient(ingress_url, admin_url=admin_url, token=token, ca=ca, timeout=timeout, retry=retry)

        self._thread.start()
        try:
            self._client = self._await(connect())
        except BaseException:
            self._end()
            raise

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections; calls under way end with ``CLOSED``."""
        if self._loop.is_closed():
            return
        self._await(self._client.close())
        self._end()

    def entity(self, app: str, operator: str, key: str) -> SyncEntity:
        """An entity, whose functions can be called."""
        return SyncEntity(self, app, operator, key)

    def call(self, app: str, operator: str, key: str, function: str, *positional: Any, **named: Any) -> Any:
        """Calls a function, and returns what it returns; see :meth:`AsyncClient.call`."""
        return self._await(self._client.call(app, operator, key, function, *positional, **named))

    def begin(self, app: str, operator: str, key: str, function: str, *positional: Any, **named: Any) -> Future[Any]:
        """Begins a call. The future has what the function returns."""
        return self._begin(self._client.call(app, operator, key, function, *positional, **named))

    def request(
        self,
        app: str,
        operator: str,
        key: str,
        function: str,
        args: Arguments = (),
        *,
        idempotency_key: str | bool = True,
        retry: Retry | None = None,
    ) -> Reply:
        """A call with all there is to say; see :meth:`AsyncClient.request`."""
        return self._await(
            self._client.request(app, operator, key, function, args, idempotency_key=idempotency_key, retry=retry)
        )

    def send(
        self,
        app: str,
        operator: str,
        key: str,
        function: str,
        *positional: Any,
        idempotency_key: str | None = None,
        **named: Any,
    ) -> str:
        """Has a function called; returns the request's id once that is durable."""
        sent = self._client.send(app, operator, key, function, *positional, idempotency_key=idempotency_key, **named)
        return self._await(sent)

    def result(self, request_id: str, *, wait: float = 0.0) -> Ended:
        """How far a request is that was sent. Waits for its end for so many seconds at most."""
        return self._await(self._client.result(request_id, wait=wait))

    def state(self, app: str, operator: str, key: str) -> Any:
        """The value of an entity as of the last durable epoch; None if there is none."""
        return self._await(self._client.state(app, operator, key))

    def scan(self, app: str, operator: str, prefix: str = "") -> Iterator[Entity]:
        """The entities of an operator whose keys begin with ``prefix``; see :meth:`AsyncClient.scan`."""
        entities = self._client.scan(app, operator, prefix)

        async def following() -> Entity | None:
            return await anext(entities, None)

        while (entity := self._await(following())) is not None:
            yield entity

    def _begin(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        if self._loop.is_closed():
            work.close()
            raise RuntimeError("this client is closed")
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def _await(self, work: Coroutine[Any, Any, T]) -> T:
        return self._begin(work).result()

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class SyncEntity:
    """An entity, whose functions can be called."""

    def __init__(self, client: Client, app: str, operator: str, key: str) -> None:
        self._client = client
        self._name = (app, operator, key)

    def call(self, function: str, *positional: Any, **named: Any) -> Any:
        """Calls a function, and returns what it returns."""
        return self._client.call(*self._name, function, *positional, **named)

    def begin(self, function: str, *positional: Any, **named: Any) -> Future[Any]:
        """Begins a call. The future has what the function returns."""
        return self._client.begin(*self._name, function, *positional, **named)

    def send(self, function: str, *positional: Any, **named: Any) -> str:
        """Has a function called; returns the request's id once that is durable."""
        return self._client.send(*self._name, function, *positional, **named)

    def state(self) -> Any:
        """The entity's value as of the last durable epoch; None if there is none."""
        return self._client.state(*self._name)
