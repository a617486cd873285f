"""Many calls under way on one WebSocket, through whatever happens to it."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

from ._error import Error, of_body, refusal
from ._reply import Reply

#: Requests that a server takes from one connection before it stops reading, by default.
_CAPACITY = 4096
#: The largest reply that is read: results are smaller, unless an app's limits were raised to the server's highest.
_MESSAGE_BYTES_MAX = 1 << 30


class Pipeline:
    """The connection, opened when somebody calls. When it breaks, every call on it ends with ``CONNECTION``: whoever made it
    knows whether it may be asked again."""

    def __init__(self, url: str, headers: Mapping[str, str], tls: ssl.SSLContext | None) -> None:
        self._url = url
        self._headers = headers
        self._tls = tls
        self._opening = asyncio.Lock()
        self._room = asyncio.Semaphore(_CAPACITY)
        self._socket: ClientConnection | None = None
        self._reader: asyncio.Task[None] | None = None
        self._waiting: dict[int, asyncio.Future[Reply]] = {}
        self._next = 0
        self._out: list[str] = []
        self._flushing: asyncio.Task[None] | None = None
        self._closed = False

    async def call(self, request: dict[str, Any]) -> Reply:
        """Makes one attempt at a call. What is asked for in one turn of the loop leaves in one message."""
        async with self._room:
            await self._connected()
            number, self._next = self._next, self._next + 1
            replied: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
            self._out.append(json.dumps({"id": number, **request}, separators=(",", ":"), allow_nan=False))
            self._waiting[number] = replied
            if self._flushing is None:
                self._flushing = asyncio.create_task(self._flush())
            try:
                return await replied
            finally:
                self._waiting.pop(number, None)

    async def close(self) -> None:
        self._closed = True
        if self._reader is not None:
            self._reader.cancel()
            with suppress(asyncio.CancelledError):
                await self._reader
        if self._socket is not None:
            await self._socket.close()
        self._lose(Error("CLOSED", "this client is closed"))

    async def _connected(self) -> None:
        if self._closed:
            raise Error("CLOSED", "this client is closed")
        if self._socket is not None:
            return
        async with self._opening:
            if self._socket is not None:
                return
            try:
                self._socket = await connect(
                    self._url,
                    additional_headers=dict(self._headers),
                    ssl=self._tls,
                    max_size=_MESSAGE_BYTES_MAX,
                    compression=None,
                    # The server asks for signs of life itself.
                    ping_interval=None,
                    proxy=None,
                )
            except InvalidStatus as error:
                response = error.response
                after = response.headers.get("Retry-After")
                raise of_body(bytes(response.body or b""), response.status_code, after) from None
            except (OSError, WebSocketException, asyncio.TimeoutError) as error:
                raise Error("UNREACHABLE", f"{self._url}: {error}", "is the server running?") from error
            self._reader = asyncio.create_task(self._read(self._socket))

    async def _flush(self) -> None:
        await asyncio.sleep(0)
        lines, self._out, self._flushing = self._out, [], None
        socket = self._socket
        # If it broke meanwhile, its reader has told all who wait.
        if socket is not None:
            with suppress(ConnectionClosed):
                await socket.send("\n".join(lines))

    async def _read(self, socket: ClientConnection) -> None:
        why = "the server closed it"
        try:
            async for message in socket:
                for line in str(message).splitlines():
                    self._take(line)
        except (ConnectionClosed, Error) as error:
            why = str(error)
        self._socket = None
        await socket.close()
        self._lose(Error("CONNECTION", f"the connection broke: {why}"))

    def _take(self, line: str) -> None:
        try:
            reply = json.loads(line)
            number = reply["id"]
        except (ValueError, KeyError, TypeError):
            raise Error("BAD_REPLY", f"no reply: {line[:200]}") from None
        if number is None:
            raise Error("BAD_REPLY", f"a reply to nobody: {line[:200]}")
        waiting = self._waiting.get(number)
        if waiting is None or waiting.done():
            return  # Whoever asked has given up.
        if "error" in reply:
            waiting.set_exception(refusal(reply["error"]))
        else:
            value = base64.b64decode(reply["ok_base64"]) if "ok_base64" in reply else reply.get("ok")
            waiting.set_result(Reply(value, reply.get("tid"), reply.get("epoch"), reply.get("replayed", False)))

    def _lose(self, error: Error) -> None:
        waiting, self._waiting = self._waiting, {}
        for replied in waiting.values():
            if not replied.done():
                replied.set_exception(error)
