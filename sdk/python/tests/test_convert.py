"""JSON values as what the type hints promise, and back."""

import enum
import math
from dataclasses import dataclass, field
from typing import Any, Literal, NotRequired, TypedDict

import jsonschema
import pytest

from styx.codec import from_json, to_json
from styx.convert import Mismatch, converter_of
from styx.schema import schema_of


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Size(enum.IntEnum):
    S = 1


@dataclass
class Line:
    item: str
    quantity: int = 1
    color: Color = Color.RED


@dataclass
class Order:
    lines: list[Line]
    total: float = 0.0
    note: str | None = None


@dataclass
class Tree:
    value: int
    children: "list[Tree]" = field(default_factory=list)


class Address(TypedDict):
    street: str
    floor: NotRequired[int]


def convert(hint, value, strict=True):
    converter = converter_of(hint, strict=strict)
    return value if converter is None else converter(value)


@pytest.mark.parametrize(
    "hint, value, expected",
    [
        (int, 3, 3),
        (int, 3.0, 3),
        (float, 3, 3.0),
        (str, "a", "a"),
        (None, None, None),
        (Any, [1, "a"], [1, "a"]),
        (int | float, 3, 3),
        (float | int, 3, 3),
        (float | str, 3, 3.0),
        (int | None, None, None),
        (list[float], [1, 2.5], [1.0, 2.5]),
        (tuple[int, ...], [1, 2], (1, 2)),
        (tuple[int, str], [1, "a"], (1, "a")),
        (dict[str, Color], {"a": "red"}, {"a": Color.RED}),
        (Literal["a", 1], 1, 1),
        (Color, "blue", Color.BLUE),
        (Size, 1, Size.S),
        (Line, {"item": "x"}, Line("x")),
        (Order, {"lines": [{"item": "x", "color": "blue"}], "total": 3}, Order([Line("x", 1, Color.BLUE)], 3.0)),
        (Line | None, {"item": "x"}, Line("x")),
        (list[Line] | Line, {"item": "x"}, Line("x")),
        (Tree, {"value": 1, "children": [{"value": 2}]}, Tree(1, [Tree(2)])),
        (Address, {"street": "s"}, {"street": "s"}),
    ],
    ids=str,
)
def test_accepts(hint, value, expected):
    jsonschema.Draft202012Validator(from_json(to_json(schema_of(hint)))).validate(value)
    converted = convert(hint, value)
    assert converted == expected
    assert repr(converted) == repr(expected)  # 3 == 3.0, but they are not the same result


@pytest.mark.parametrize(
    "hint, value, message",
    [
        (int, "3", 'x must be an integer, not "3"'),
        (int, True, "x must be an integer, not true"),
        (int, 3.5, "x must be an integer, not 3.5"),
        (float, False, "x must be a number, not false"),
        (float, 10**400, "x must be a number, not 1000000000000000000000000000000000000..."),
        (bool, 1, "x must be true or false, not 1"),
        (str, None, "x must be a string, not null"),
        (None, 0, "x must be null, not 0"),
        (list[int], [1, "a"], 'x[1] must be an integer, not "a"'),
        (list[int], {}, "x must be an array, not an object"),
        (tuple[int, str], [1], "x must be an array of 2, not an array"),
        (tuple[int, str], [1, 2], "x[1] must be a string, not 2"),
        (dict[str, int], {"a": []}, "x.a must be an integer, not an array"),
        (int | str, [], "x must be an integer or a string, not an array"),
        (Literal["a", 1], True, 'x must be one of "a", 1, not true'),
        (Color, "green", 'x must be one of "red", "blue", not "green"'),
        (Color, [], 'x must be one of "red", "blue", not an array'),
        (Line, {}, 'x must be an object (Line) with the field "item", not an object'),
        (Line, {"item": "x", "z": 1}, 'x must be an object (Line) without the field "z", not an object'),
        (Order, {"lines": [{"item": "a"}, {"item": 1}]}, "x.lines[1].item must be a string, not 1"),
        (Order | None, {"lines": [{"item": 1}]}, "x.lines[0].item must be a string, not 1"),
        (Tree, {"value": 1, "children": [{"value": "b"}]}, 'x.children[0].value must be an integer, not "b"'),
        (Address, {"street": "s", "floor": "1"}, 'x.floor must be an integer, not "1"'),
    ],
    ids=str,
)
def test_refuses(hint, value, message):
    validator = jsonschema.Draft202012Validator(from_json(to_json(schema_of(hint))))
    if value != 10**400:  # JSON Schema has no bounds for numbers
        assert not validator.is_valid(value)
    with pytest.raises(Mismatch) as refused:
        convert(hint, value)
    assert refused.value.describe("x") == message


def test_state_may_have_fields_that_the_code_has_no_more():
    assert convert(Line, {"item": "x", "z": 1}, strict=False) == Line("x")


@pytest.mark.parametrize(
    "value, expected",
    [
        (None, b"null"),
        ({"b": 1, "a": [1.5, "é\x00"]}, '{"b":1,"a":[1.5,"é\\u0000"]}'.encode()),
        ((1, (2,)), b"[1,[2]]"),
        (Order([Line("x")], 1.0), b'{"lines":[{"item":"x","quantity":1,"color":"red"}],"total":1.0,"note":null}'),
        ([Color.RED, Size.S], b'["red",1]'),
        ({1: "int keys become strings"}, b'{"1":"int keys become strings"}'),
    ],
    ids=str,
)
def test_to_json(value, expected):
    assert to_json(value) == expected


def circular():
    loop = {}
    loop["again"] = loop
    return loop


@pytest.mark.parametrize(
    "value",
    [math.nan, math.inf, {"a": -math.inf}, {math.nan: 1}, "\ud800", object(), {(1, 2): 3}, circular()],
    ids=repr,
)
def test_to_json_refuses(value):
    with pytest.raises((TypeError, ValueError)):
        to_json(value)
    assert to_json([1]) == b"[1]"  # a failure leaves nothing behind


@pytest.mark.parametrize("data", [b"", b"{", b"nan", b"NaN", b"[Infinity]", b"1 2", b'"\xff"', b"'a'"])
def test_from_json_refuses(data):
    with pytest.raises(ValueError):
        from_json(data)


def test_from_json_accepts_blanks():
    assert from_json(b' {"a" : [1, 2.5, null]}\n') == {"a": [1, 2.5, None]}
