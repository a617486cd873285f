"""Shapes as JSON Schema (2020-12), for validation at the gateway and the OpenAPI page."""

from dataclasses import MISSING
from decimal import Decimal
from typing import Any

from styx.codec import to_json
from styx.shape import Anything, Array, Choice, Either, Mapping, Record, Row, Scalar, Shape, Written, shape_of
from styx.written import WRITINGS

_TYPE_NAMES = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}


def schema_of(hint: Any, default: Any = MISSING) -> dict[str, Any]:
    """The JSON Schema of a type hint. Raises `styx.shape.Unsupported` if it has none."""
    return schema_of_shape(shape_of(hint), default)


def schema_of_shape(shape: Shape, default: Any = MISSING, *, strict: bool = True) -> dict[str, Any]:
    """The JSON Schema of a shape, with a default if JSON can express it. As converters do, `strict` refuses unknown fields."""
    writer = _Writer(strict)
    writer.find_recursion(shape)
    schema = writer.write(shape)
    if writer.definitions:
        schema = {**schema, "$defs": writer.definitions}
    return _with_default(schema, default)


def _with_default(schema: dict[str, Any], default: Any) -> dict[str, Any]:
    if default is MISSING:
        return schema
    try:
        to_json(default)
    except (TypeError, ValueError):
        return schema
    return {**schema, "default": default}


class _Writer:
    """Writes records in place, except those that contain themselves: they go to `$defs`."""

    def __init__(self, strict: bool) -> None:
        self._strict = strict
        self.definitions: dict[str, Any] = {}
        self._recursive: dict[Record, str] = {}
        self._visited: set[Record] = set()

    def find_recursion(self, shape: Shape, open_records: tuple[Record, ...] = ()) -> None:
        if isinstance(shape, Record):
            if shape in open_records:
                if shape not in self._recursive:
                    taken = set(self._recursive.values())
                    name = shape.cls.__name__
                    self._recursive[shape] = name if name not in taken else f"{shape.cls.__module__}.{name}"
                return
            if shape in self._visited:
                return
            self._visited.add(shape)
            open_records = (*open_records, shape)
        for child in _children(shape):
            self.find_recursion(child, open_records)

    def write(self, shape: Shape) -> dict[str, Any]:
        match shape:
            case Anything():
                return {}
            case Scalar(type):
                return {"type": _TYPE_NAMES[type]}
            case Written(type):
                # Of what is stored, whole numbers are decimals, too.
                kinds = "string" if self._strict or type is not Decimal else ["string", "integer"]
                return {"type": kinds, **WRITINGS[type].schema}
            case Array(item, make):
                unique = {"uniqueItems": True} if self._strict and make in (set, frozenset) else {}
                return {"type": "array", "items": self.write(item), **unique}
            case Row(items):
                return {
                    "type": "array",
                    "prefixItems": [self.write(item) for item in items],
                    "items": False,
                    "minItems": len(items),
                    "maxItems": len(items),
                }
            case Mapping(value):
                return {"type": "object", "additionalProperties": self.write(value)}
            case Choice(members):
                return {"enum": [value for _, value in members]}
            case Either(options):
                return {"anyOf": [self.write(option) for option in options]}
            case Record():
                return self._write_record(shape)
        raise AssertionError(f"no schema for {shape!r}")

    def _write_record(self, record: Record) -> dict[str, Any]:
        name = self._recursive.get(record)
        if name is None:
            return self._write_fields(record)
        if name not in self.definitions:
            self.definitions[name] = {}  # stops the recursion
            self.definitions[name] = self._write_fields(record)
        return {"$ref": f"#/$defs/{name}"}

    def _write_fields(self, record: Record) -> dict[str, Any]:
        return {
            "title": record.cls.__name__,
            "type": "object",
            "properties": {
                name: _with_default(self.write(shape), default) for name, (shape, _, default) in record.fields.items()
            },
            "required": [name for name, (_, required, _) in record.fields.items() if required],
            **({"additionalProperties": False} if self._strict else {}),
        }


def _children(shape: Shape) -> tuple[Shape, ...]:
    match shape:
        case Array(item):
            return (item,)
        case Row(items):
            return items
        case Mapping(value):
            return (value,)
        case Either(options):
            return options
        case Record():
            return tuple(child for child, _, _ in shape.fields.values())
    return ()
