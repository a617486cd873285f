"""Types that JSON writes as text: dates, times, decimals, UUIDs, bytes.

One text for each value, so that equal values are equal bytes in every language:

    datetime, date, time    ISO 8601: "2026-03-01T12:00:00+00:00", "2026-03-01", "12:00:00"
    timedelta               ISO 8601: "P1DT2H3M4.5S"
    Decimal                 its digits: "12.50"
    UUID                    "6f1c..."
    bytes                   base64
"""

import base64
import binascii
import datetime
import decimal
import re
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Writing:
    """How a type is written."""

    #: For messages: "must be a date such as ...".
    name: str
    #: What JSON Schema says besides that it is a string.
    schema: dict[str, str]
    write: Callable[[Any], str]
    #: Raises ValueError.
    read: Callable[[Any], Any]


_DURATION = re.compile(
    r"(-)?P(?:(\d+)W)?(?:(\d+)D)?(?:T(?=\d)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:[.,](\d{1,6}))?S)?)?\Z", re.ASCII
)
_DECIMAL = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?\Z", re.ASCII)


def write_duration(value: datetime.timedelta) -> str:
    """A duration in ISO 8601, by days and smaller."""
    sign, value = ("-", -value) if value < datetime.timedelta(0) else ("", value)
    minutes, seconds = divmod(value.seconds, 60)
    hours, minutes = divmod(minutes, 60)
    fraction = f".{value.microseconds:06}".rstrip("0") if value.microseconds else ""
    days = f"{value.days}D" if value.days else ""
    clock = f"{hours}H" if hours else ""
    clock += f"{minutes}M" if minutes else ""
    clock += f"{seconds}{fraction}S" if seconds or fraction or not (days or clock) else ""
    return f"{sign}P{days}{'T' if clock else ''}{clock}"


def read_duration(text: Any) -> datetime.timedelta:
    """The duration that a text stands for."""
    match = _DURATION.match(text) if isinstance(text, str) and not text.endswith(("P", "T")) else None
    if match is None:
        raise ValueError
    sign, weeks, days, hours, minutes, seconds, fraction = match.groups()
    try:
        value = datetime.timedelta(
            weeks=int(weeks or 0),
            days=int(days or 0),
            hours=int(hours or 0),
            minutes=int(minutes or 0),
            seconds=int(seconds or 0),
            microseconds=int((fraction or "").ljust(6, "0")),
        )
    except OverflowError:
        raise ValueError from None
    return -value if sign else value


def _write_decimal(value: decimal.Decimal) -> str:
    if not value.is_finite():
        raise ValueError(f"the decimal {value} has no JSON form")
    return str(value)


def _read_decimal(value: Any) -> decimal.Decimal:
    # A whole number is exact in JSON; one with a point has been a binary fraction already.
    if type(value) is int or isinstance(value, str) and _DECIMAL.match(value):
        return decimal.Decimal(value)
    raise ValueError


def _read_uuid(text: Any) -> uuid.UUID:
    if not isinstance(text, str) or len(text) != 36:
        raise ValueError
    return uuid.UUID(text)


def _read_bytes(text: Any) -> bytes:
    try:
        return base64.b64decode(text.encode("ascii"), validate=True) if isinstance(text, str) else _refuse()
    except (binascii.Error, UnicodeError):
        raise ValueError from None


def _refuse() -> Any:
    raise ValueError


def _iso(cls: Any) -> Callable[[Any], Any]:
    def read(text: Any) -> Any:
        return cls.fromisoformat(text) if isinstance(text, str) else _refuse()

    return read


def _read_date(text: Any) -> datetime.date:
    if not isinstance(text, str) or len(text) != 10:
        raise ValueError
    return datetime.date.fromisoformat(text)


#: By type. A datetime is a date, too: look for the type itself, in this order.
WRITINGS: dict[type, Writing] = {
    datetime.datetime: Writing(
        'a date and time such as "2026-03-01T12:00:00+00:00"',
        {"format": "date-time"},
        datetime.datetime.isoformat,
        _iso(datetime.datetime),
    ),
    datetime.date: Writing(
        'a date such as "2026-03-01"', {"format": "date"}, datetime.date.isoformat, _read_date
    ),
    datetime.time: Writing('a time such as "12:00:00"', {"format": "time"}, datetime.time.isoformat, _iso(datetime.time)),
    datetime.timedelta: Writing('a duration such as "PT1H30M"', {"format": "duration"}, write_duration, read_duration),
    decimal.Decimal: Writing('a decimal such as "12.50"', {"format": "decimal"}, _write_decimal, _read_decimal),
    uuid.UUID: Writing("a UUID", {"format": "uuid"}, str, _read_uuid),
    bytes: Writing(
        "bytes in base64",
        {"contentEncoding": "base64"},
        lambda value: base64.b64encode(value).decode(),
        _read_bytes,
    ),
}


def writing_of(value: Any) -> Writing | None:
    """How a value is written, if it is of such a type or of one derived from it."""
    found = WRITINGS.get(type(value))
    if found is not None:
        return found
    return next((writing for cls, writing in WRITINGS.items() if isinstance(value, cls)), None)
