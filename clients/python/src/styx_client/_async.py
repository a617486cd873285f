"""The client for asyncio."""

from __future__ import annotations

import asyncio
import base64
import ssl
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Union
from urllib.parse import quote, urlsplit

import httpx

from ._error import Error, of_body, refusal
from ._pipeline import Pipeline
from ._reply import Ended, Entity, Reply
from ._retry import Retry

#: Arguments: in order, or by name.
Arguments = Union[Sequence[Any], Mapping[str, Any]]


def arguments(positional: Sequence[Any], named: Mapping[str, Any]) -> Arguments:
    """Arguments as a call in Python has them."""
    if positional and named:
        raise TypeError("arguments are given in order or by name, not both")
    return dict(named) if named else list(positional)


def key_or_fresh(idempotency_key: str | bool) -> str | None:
    """An idempotency key: the caller's, one of its own, or none."""
    if isinstance(idempotency_key, str):
        return idempotency_key
    return uuid.uuid4().hex if idempotency_key else None


class AsyncClient:
    """A client of one server or cluster, for asyncio. Use it as ``async with``, or :meth:`close` it.

    Args:
        ingress_url: Where calls go, such as ``http://127.0.0.1:8080``.
        admin_url: Where state is looked at; by default the server's default port for it, 9070, on the same host.
        token: What is shown as ``Authorization: Bearer``.
        ca: File with the authorities that are believed instead of the system's.
        timeout: Seconds for one attempt.
        retry: How requests are repeated.
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
        ingress = _base(ingress_url)
        parts = urlsplit(ingress)
        host = f"[{parts.hostname}]" if parts.hostname and ":" in parts.hostname else parts.hostname
        self._ingress = ingress
        self._admin = _base(admin_url) if admin_url else f"{parts.scheme}://{host}:9070"
        self._timeout = timeout
        self._retry = retry
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        is_secure = parts.scheme == "https"
        tls = ssl.create_default_context(cafile=ca) if is_secure or ca else None
        # Proxies of the environment are for the web, not for a cluster's own traffic.
        self._http = httpx.AsyncClient(headers=headers, timeout=timeout, verify=tls or True, trust_env=False)
        url = f"{'wss' if is_secure else 'ws'}://{parts.netloc}{parts.path}/v1/ws?batch=true"
        self._pipeline = Pipeline(url, headers, tls if is_secure else None)

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connections; calls under way end with ``CLOSED``."""
        await self._pipeline.close()
        await self._http.aclose()

    def entity(self, app: str, operator: str, key: str) -> AsyncEntity:
        """An entity, whose functions can be called."""
        return AsyncEntity(self, app, operator, key)

    async def call(self, app: str, operator: str, key: str, function: str, *positional: Any, **named: Any) -> Any:
        """Calls a function, and returns what it returns.

        Raises:
            Error: It refused, or was refused, or nobody could be asked for too long.
        """
        return (await self.request(app, operator, key, function, arguments(positional, named))).value

    async def request(
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
        """The same with all there is to say.

        Args:
            args: A sequence or a mapping.
            idempotency_key: Whoever asks under the same key again gets the same reply. True: one of its own; False: none,
                and the call is not repeated where it may have happened.
            retry: Another policy than the client's.
        """
        args = dict(args) if isinstance(args, Mapping) else list(args)
        request: dict[str, Any] = {"app": app, "operator": operator, "key": key, "function": function, "args": args}
        idempotency = key_or_fresh(idempotency_key)
        if idempotency is not None:
            request["idempotency_key"] = idempotency

        async def attempt() -> Reply:
            try:
                return await asyncio.wait_for(self._pipeline.call(request), self._timeout)
            except asyncio.TimeoutError:
                raise Error("TIMEOUT", f"no reply within {self._timeout} s") from None

        return await (retry or self._retry).run(attempt, has_key=idempotency is not None)

    async def send(
        self,
        app: str,
        operator: str,
        key: str,
        function: str,
        *positional: Any,
        idempotency_key: str | None = None,
        **named: Any,
    ) -> str:
        """Has a function called; returns the request's id once that is durable. :meth:`result` tells its end."""
        path = "/".join(quote(part, safe="") for part in (app, operator, key, function))
        headers = {"Idempotency-Key": idempotency_key or uuid.uuid4().hex}
        answer = await self._ask(
            "POST", f"{self._ingress}/v1/send/{path}", json=arguments(positional, named), headers=headers
        )
        return str(answer["request_id"])

    async def result(self, request_id: str, *, wait: float = 0.0) -> Ended:
        """How far a request is that was sent. Waits for its end for so many seconds at most."""
        url = f"{self._ingress}/v1/requests/{quote(request_id, safe='')}"
        params = {"wait": f"{int(wait * 1000)}ms"} if wait else {}
        answer = await self._ask("GET", url, params=params, timeout=self._timeout + wait)
        encoded = answer.get("result_base64")
        return Ended(
            str(answer.get("request_id", request_id)),
            str(answer["status"]),
            answer.get("result") if encoded is None else base64.b64decode(encoded),
            refusal(answer["error"]) if answer.get("error") else None,
            answer.get("tid"),
            answer.get("epoch"),
        )

    async def state(self, app: str, operator: str, key: str) -> Any:
        """The value of an entity as of the last durable epoch; None if there is none."""
        path = "/".join(quote(part, safe="") for part in (app, operator, key))
        try:
            return _stored(await self._ask("GET", f"{self._admin}/v1/state/{path}"))
        except Error as error:
            if error.code == "UNKNOWN_ENTITY":
                return None
            raise

    async def scan(self, app: str, operator: str, prefix: str = "") -> AsyncIterator[Entity]:
        """The entities of an operator whose keys begin with ``prefix``, in key order. Pages are read one after the other:
        what commits meanwhile may be seen in part."""
        params = {"prefix": prefix, "limit": "1000"}
        path = "/".join(quote(part, safe="") for part in (app, operator))
        while True:
            page = await self._ask("GET", f"{self._admin}/v1/state/{path}", params=params)
            for entry in page["entries"]:
                yield Entity(entry["key"], _stored(entry))
            if page.get("next") is None:
                return
            params["after"] = page["next"]

    async def _ask(self, method: str, url: str, **options: Any) -> dict[str, Any]:
        async def attempt() -> dict[str, Any]:
            try:
                answer = await self._http.request(method, url, **options)
            except httpx.ConnectError as error:
                raise Error("UNREACHABLE", f"{url}: {error}", "is the server running?") from error
            except httpx.TimeoutException as error:
                raise Error("TIMEOUT", f"{url}: no answer in time") from error
            except httpx.HTTPError as error:
                raise Error("CONNECTION", f"{url}: {error}") from error
            if answer.is_success:
                body = answer.json()
                if isinstance(body, dict):
                    return body
                raise Error("BAD_REPLY", f"{url}: no object")
            raise of_body(answer.content, answer.status_code, answer.headers.get("Retry-After"))

        # Sends have keys, and everything else only reads.
        return await self._retry.run(attempt, has_key=True)


class AsyncEntity:
    """An entity, whose functions can be called."""

    def __init__(self, client: AsyncClient, app: str, operator: str, key: str) -> None:
        self._client = client
        self._name = (app, operator, key)

    async def call(self, function: str, *positional: Any, **named: Any) -> Any:
        """Calls a function, and returns what it returns."""
        return await self._client.call(*self._name, function, *positional, **named)

    async def send(self, function: str, *positional: Any, **named: Any) -> str:
        """Has a function called; returns the request's id once that is durable."""
        return await self._client.send(*self._name, function, *positional, **named)

    async def state(self) -> Any:
        """The entity's value as of the last durable epoch; None if there is none."""
        return await self._client.state(*self._name)


def _base(url: str) -> str:
    return (url if "://" in url else f"http://{url}").rstrip("/")


def _stored(entry: Mapping[str, Any]) -> Any:
    return base64.b64decode(entry["value"]) if entry["encoding"] == "base64" else entry["value"]
