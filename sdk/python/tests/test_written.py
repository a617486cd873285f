"""Dates, decimals and the like: as parameters, results and state."""

import datetime
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Generic, NamedTuple, TypeVar

import pytest

from styx import AsyncContext, CallFailed, Context, Operator
from styx.codec import from_json, to_json
from styx.convert import Mismatch, converter_of
from styx.schema import schema_of
from styx.shape import Unsupported, shape_of
from styx.testing import Host

T = TypeVar("T")


class Point(NamedTuple):
    x: int
    on: datetime.date


@dataclass
class Page(Generic[T]):
    items: list[T]
    next: T | None = None


@dataclass
class Invoice:
    id: uuid.UUID
    total: Decimal
    due: datetime.date
    tags: frozenset[str]


UTC = datetime.timezone.utc
ID = uuid.UUID("12345678-1234-5678-1234-567812345678")
DAY = datetime.date(2026, 3, 1)


@pytest.mark.parametrize(
    "hint, value, text",
    [
        (datetime.datetime, datetime.datetime(2026, 3, 1, 12, tzinfo=UTC), '"2026-03-01T12:00:00+00:00"'),
        (datetime.datetime, datetime.datetime(2026, 3, 1, 12, 0, 0, 5), '"2026-03-01T12:00:00.000005"'),
        (datetime.date, DAY, '"2026-03-01"'),
        (datetime.time, datetime.time(23, 59), '"23:59:00"'),
        (datetime.timedelta, datetime.timedelta(0), '"PT0S"'),
        (datetime.timedelta, datetime.timedelta(days=1, hours=2, minutes=3, seconds=4.5), '"P1DT2H3M4.5S"'),
        (datetime.timedelta, -datetime.timedelta(microseconds=1), '"-PT0.000001S"'),
        (datetime.timedelta, datetime.timedelta.max, '"P999999999DT23H59M59.999999S"'),
        (Decimal, Decimal("12.50"), '"12.50"'),
        (Decimal, Decimal("1E+400"), '"1E+400"'),
        (uuid.UUID, ID, '"12345678-1234-5678-1234-567812345678"'),
        (bytes, b"\x00\xff", '"AP8="'),
        (set[int], {10, 9, 1}, "[1,10,9]"),
        (frozenset[datetime.date], frozenset({DAY}), '["2026-03-01"]'),
        (Point, Point(1, DAY), '[1,"2026-03-01"]'),
        (Page[Decimal], Page([Decimal(1)], Decimal(2)), '{"items":["1"],"next":"2"}'),
        (dict[str, Page[Point]], {"a": Page([Point(1, DAY)])}, '{"a":{"items":[[1,"2026-03-01"]],"next":null}}'),
        (Invoice, Invoice(ID, Decimal("1.0"), DAY, frozenset("ba")), None),
        (datetime.date | str, DAY, '"2026-03-01"'),
        (datetime.date | str, "soon", '"soon"'),
        (Decimal | None, None, "null"),
        (Sequence[Decimal], [Decimal(1)], '["1"]'),
        (Mapping[str, bytes], {"a": b""}, '{"a":""}'),
    ],
    ids=str,
)
def test_there_and_back(hint, value, text):
    written = to_json(value)
    if text is not None:
        assert written.decode() == text
    read = converter_of(hint)(from_json(written))
    assert read == value and type(read) is type(value)
    assert to_json(read) == written
    assert to_json(schema_of(hint))


@pytest.mark.parametrize(
    "hint, value, says",
    [
        (datetime.date, "2026-02-30", "a date such as"),
        (datetime.date, "2026-03-01T00:00:00", "a date such as"),
        (datetime.date, 5, "a date such as"),
        (datetime.datetime, "yesterday", "a date and time such as"),
        (datetime.time, "25:00", "a time such as"),
        (datetime.timedelta, "P", "a duration such as"),
        (datetime.timedelta, "PT", "a duration such as"),
        (datetime.timedelta, "1h", "a duration such as"),
        (datetime.timedelta, "P9999999999D", "a duration such as"),
        (Decimal, 1.5, "a decimal such as"),
        (Decimal, "NaN", "a decimal such as"),
        (Decimal, "1_000", "a decimal such as"),
        (Decimal, True, "a decimal such as"),
        (uuid.UUID, "12345678123456781234567812345678", "a UUID"),
        (bytes, "A", "bytes in base64"),
        (bytes, "AP8=\n", "bytes in base64"),
        (bytes, "\u00e4", "bytes in base64"),
        (set[list[int]], [[1]], "an array of what can be in a set"),
        (Point, [1], "an array of 2"),
        (Page[int], {"items": ["x"]}, "an integer"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused(hint, value, says):
    with pytest.raises(Mismatch, match=says):
        converter_of(hint)(value)


def test_schemas_say_the_form():
    assert schema_of(datetime.date) == {"type": "string", "format": "date"}
    assert schema_of(bytes) == {"type": "string", "contentEncoding": "base64"}
    assert schema_of(set[int]) == {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}
    assert schema_of(Decimal, Decimal("0.5"))["default"] == Decimal("0.5")


def test_equal_sets_are_equal_bytes():
    words = [str(number) for number in range(100)]
    assert to_json(set(words)) == to_json(set(reversed(words)))


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity"])
def test_what_is_no_number_is_refused(value):
    with pytest.raises(ValueError, match="has no JSON form"):
        to_json(Decimal(value))


def test_models_of_pydantic_say_why():
    model = type("Model", (type("BaseModel", (), {"__module__": "pydantic.main"}),), {})
    with pytest.raises(Unsupported, match="Model is a model of pydantic, whose core is native code"):
        shape_of(model)


shop = Operator("shop")


@shop.register
def invoice(ctx: Context, total: Decimal, due: datetime.date, days: datetime.timedelta = datetime.timedelta(1)) -> Invoice:
    made = Invoice(ID, total * 2, due + days, frozenset({"new"}))
    ctx.state.put(made)
    assert ctx.state.get(as_type=Invoice) == made
    return made


@shop.register
async def twice(ctx: AsyncContext, total: Decimal) -> Decimal:
    """Awaits calls, as the papers' programs do."""
    one = await ctx.call(shop, "one", invoice, total, DAY)
    other = await ctx.call(shop, "other", invoice, one.total, DAY)
    return await double(other.total)


async def double(total: Decimal) -> Decimal:
    return total * 2


@shop.register
async def waits(ctx: AsyncContext) -> None:
    ctx.state.put("written")
    await Never()


class Never:
    def __await__(self):
        yield self


@shop.register
async def refuses(ctx: AsyncContext) -> None:
    raise ValueError("no")


def test_a_function_gets_and_gives_them():
    host = Host(shop)
    made = host.call(shop, "s", invoice, Decimal("1.25"), DAY)
    assert made == {"id": str(ID), "total": "2.50", "due": "2026-03-02", "tags": ["new"]}
    assert host.get(shop, "s") == made
    with pytest.raises(CallFailed) as failed:
        host.call(shop, "s", "invoice", 1.5, "2026-03-01")
    assert failed.value.code == "BAD_ARGUMENTS"
    assert failed.value.message == 'shop.invoice: total must be a decimal such as "12.50", not 1.5'


def test_functions_may_be_async():
    host = Host(shop)
    assert host.call(shop, "s", twice, Decimal("0.5")) == "4.0"
    assert [key for _, key, _ in host.calls] == ["s", "one", "other"]
    with pytest.raises(CallFailed, match="waits awaits what no call settles") as failed:
        host.call(shop, "s", waits)
    assert failed.value.code == "GUEST_EXCEPTION" and host.get(shop, "s") is None
    with pytest.raises(CallFailed) as failed:
        host.call(shop, "s", refuses)
    assert (failed.value.code, failed.value.message) == ("ABORTED", "no")
