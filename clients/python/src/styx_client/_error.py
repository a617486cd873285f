"""Errors: what the server refused, or why it could not be asked."""

from __future__ import annotations

import json
from typing import Any

_UNKNOWN = frozenset({"OUTCOME_UNKNOWN", "SHUTTING_DOWN", "TIMEOUT", "CONNECTION"})
_TRANSIENT = frozenset(
    {"OVERLOADED", "UNAVAILABLE", "NOT_READY", "LOG_STALLED", "DISK_FULL", "STANDBY", "UNREACHABLE", "RATE_LIMITED"}
)


class Error(Exception):
    """The end of a request without a result.

    Attributes:
        code: A stable code, such as ``ABORTED`` or ``OVERLOADED``; the server's documentation lists them. The client adds
            ``UNREACHABLE``, ``CONNECTION`` (it broke before the reply), ``TIMEOUT``, ``HTTP`` (a status without a reason),
            ``CLOSED`` (this client was closed) and ``BAD_REPLY``.
        message: One line that says what is wrong.
        hint: Advice; may be empty.
        app_code: The app's own code, if the function gave one.
        status: The HTTP status, if there was one.
        retry_after: Seconds that the server asks to wait before the next attempt.
    """

    def __init__(
        self,
        code: str,
        message: str,
        hint: str = "",
        *,
        app_code: str | None = None,
        status: int | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message
        self.hint = hint
        self.app_code = app_code
        self.status = status
        self.retry_after = retry_after

    def __str__(self) -> str:
        name = f"{self.code} ({self.app_code})" if self.app_code else self.code
        return f"{name}: {self.message}" + (f"; {self.hint}" if self.hint else "")

    @property
    def is_aborted(self) -> bool:
        """True if the function itself refused: nothing was written, and it would refuse again."""
        return self.code == "ABORTED"

    @property
    def outcome_unknown(self) -> bool:
        """True if nobody can say whether the request had an effect. With an idempotency key, asking again tells."""
        return self.code in _UNKNOWN

    @property
    def is_transient(self) -> bool:
        """True if another attempt may fare better."""
        return self.outcome_unknown or self.code in _TRANSIENT or self.status in (429, 503)

    def is_repeatable(self, has_key: bool) -> bool:
        """True if the request may be repeated without happening twice, and should be."""
        return self.is_transient and (has_key or not self.outcome_unknown)


def refusal(error: Any, status: int | None = None, retry_after: float | None = None) -> Error:
    """The error of an object as the server writes it."""
    if not isinstance(error, dict) or not isinstance(error.get("code"), str):
        return Error("BAD_REPLY", f"an error without a code: {error!r}", status=status)
    return Error(
        error["code"],
        str(error.get("message", "")),
        str(error.get("hint", "")),
        app_code=error.get("app_code"),
        status=status,
        retry_after=retry_after,
    )


def of_body(body: bytes, status: int, retry_after: str | None = None) -> Error:
    """The error of an HTTP answer, which may be of some proxy instead."""
    seconds = float(retry_after) if retry_after and retry_after.isdigit() else None
    try:
        return refusal(json.loads(body)["error"], status, seconds)
    except (ValueError, KeyError, TypeError):
        return Error("HTTP", f"the server answered {status}", status=status, retry_after=seconds)
