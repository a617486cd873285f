"""Type hints as JSON Schema, and the hints that have none."""

import dataclasses
import enum
from typing import Annotated, Any, Literal, NewType, NotRequired, Optional, TypedDict, Union

import jsonschema
import pytest

from styx.schema import schema_of
from styx.shape import Unsupported

UserId = NewType("UserId", str)


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Size(enum.IntEnum):
    S = 1
    L = 3


class Rights(enum.Flag):
    READ = 1


@dataclasses.dataclass
class Line:
    item: str
    quantity: int = 1
    tags: list[str] = dataclasses.field(default_factory=list)
    color: Color = Color.RED


class Address(TypedDict):
    street: str
    floor: NotRequired[int]


@dataclasses.dataclass
class Tree:
    value: int
    children: "list[Tree]" = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Holder:
    stamp: "complex"


@dataclasses.dataclass
class Derived:
    base: int
    twice: int = dataclasses.field(init=False)


LINE_SCHEMA = {
    "title": "Line",
    "type": "object",
    "properties": {
        "item": {"type": "string"},
        "quantity": {"type": "integer", "default": 1},
        "tags": {"type": "array", "items": {"type": "string"}},
        "color": {"enum": ["red", "blue"], "default": Color.RED},
    },
    "required": ["item"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    "hint, expected",
    [
        (int, {"type": "integer"}),
        (float, {"type": "number"}),
        (str, {"type": "string"}),
        (bool, {"type": "boolean"}),
        (None, {"type": "null"}),
        (Any, {}),
        (object, {}),
        (UserId, {"type": "string"}),
        (Annotated[int, "cents"], {"type": "integer"}),
        (list, {"type": "array", "items": {}}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (list[list[str]], {"type": "array", "items": {"type": "array", "items": {"type": "string"}}}),
        (dict, {"type": "object", "additionalProperties": {}}),
        (dict[str, float], {"type": "object", "additionalProperties": {"type": "number"}}),
        (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}),
        (
            tuple[int, str],
            {
                "type": "array",
                "prefixItems": [{"type": "integer"}, {"type": "string"}],
                "items": False,
                "minItems": 2,
                "maxItems": 2,
            },
        ),
        (Optional[int], {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        (Union[int, str], {"anyOf": [{"type": "integer"}, {"type": "string"}]}),
        (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        (Literal["a", 1, True, None], {"enum": ["a", 1, True, None]}),
        (Color, {"enum": ["red", "blue"]}),
        (Size, {"enum": [1, 3]}),
        (Line, LINE_SCHEMA),
        (
            Address,
            {
                "title": "Address",
                "type": "object",
                "properties": {"street": {"type": "string"}, "floor": {"type": "integer"}},
                "required": ["street"],
                "additionalProperties": False,
            },
        ),
        (
            Tree,
            {
                "$ref": "#/$defs/Tree",
                "$defs": {
                    "Tree": {
                        "title": "Tree",
                        "type": "object",
                        "properties": {
                            "value": {"type": "integer"},
                            "children": {"type": "array", "items": {"$ref": "#/$defs/Tree"}},
                        },
                        "required": ["value"],
                        "additionalProperties": False,
                    }
                },
            },
        ),
    ],
    ids=str,
)
def test_schema(hint, expected):
    schema = schema_of(hint)
    assert schema == expected
    if hint is not Line:  # its default is an enum, which becomes JSON only when it is written
        jsonschema.Draft202012Validator.check_schema(schema)


@pytest.mark.parametrize(
    "hint, message",
    [
        (set[complex], "complex has no JSON form: use int,"),
        (range, "range has no JSON form"),
        (dict[int, str], "dict[int, str] has keys that JSON does not have: use dict[str, ...]"),
        (complex, "complex has no JSON form"),
        (Rights, "the flags Rights have no JSON form: use int"),
        (Literal[b"x"], "Literal[b'x'] has no JSON form"),
        (list[range], "range has no JSON form"),
        (Holder, "field Holder.stamp: complex has no JSON form"),
        (Derived, "Derived.twice has init=False"),
        ("Nowhere", "the type hint 'Nowhere' is not a type that is known here"),
    ],
    ids=str,
)
def test_unsupported(hint, message):
    with pytest.raises(Unsupported) as refused:
        schema_of(hint)
    assert message in str(refused.value)


def test_defaults_appear_if_json_has_them():
    assert schema_of(int, 3) == {"type": "integer", "default": 3}
    assert schema_of(Any, object()) == {}
    assert schema_of(Any, float("nan")) == {}


def test_records_that_share_a_part_do_not_count_as_recursive():
    assert "$defs" not in schema_of(tuple[Line, Line])
