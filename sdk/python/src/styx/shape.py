"""Type hints, read once at build time into a small tree of shapes.

The peculiarities of Python's typing module end here: the JSON Schema
(`schema.py`) and the converters (`convert.py`) are both derived from shapes, so
they cannot disagree about what a hint means.
"""

import collections.abc
import dataclasses
import enum
import types
import typing
from dataclasses import dataclass, field
from typing import Any

from styx.written import WRITINGS

_SCALARS = (str, int, float, bool, types.NoneType)
_TYPED_DICT_MARKS = tuple(
    mark for mark in (getattr(typing, name, None) for name in ("Required", "NotRequired", "ReadOnly")) if mark
)
_HELP = (
    "use int, float, str, bool, None, list, dict[str, ...], tuple, set, datetime, date, time, timedelta, Decimal, UUID, "
    "bytes, Literal, Enum, dataclasses, NamedTuple, TypedDict or Any"
)
_SETS = (set, frozenset)
#: Abstract types of what is read only, by what JSON gives for them.
_ABSTRACT: dict[Any, Any] = {
    collections.abc.Sequence: list,
    collections.abc.Iterable: list,
    collections.abc.Collection: list,
    collections.abc.Mapping: dict,
    collections.abc.Set: frozenset,
}


class Unsupported(Exception):
    """A type hint that has no JSON form."""


class Shape:
    """Base of all shapes."""


@dataclass(frozen=True)
class Anything(Shape):
    """Any JSON value."""


@dataclass(frozen=True)
class Scalar(Shape):
    """One of str, int, float, bool and None."""

    type: type


@dataclass(frozen=True)
class Array(Shape):
    """A list, or what `make` makes of one: a tuple of any length, a set."""

    item: Shape
    make: Any = None


@dataclass(frozen=True)
class Row(Shape):
    """A tuple of fixed length, or what `construct` makes of its items."""

    items: tuple[Shape, ...]
    construct: Any = None


@dataclass(frozen=True)
class Written(Shape):
    """What JSON writes as text; see `styx.written`."""

    type: type


@dataclass(frozen=True)
class Mapping(Shape):
    """A dict with string keys."""

    value: Shape


@dataclass(frozen=True)
class Choice(Shape):
    """Some literal values; `members` maps (type, value) to what Python code sees."""

    members: dict[tuple[type, Any], Any]


@dataclass(frozen=True)
class Either(Shape):
    """A union."""

    options: tuple[Shape, ...]


@dataclass(eq=False)
class Record(Shape):
    """A dataclass or a TypedDict. Compared by identity, because it may contain itself."""

    cls: type
    #: Field name → (shape, required, default as a JSON-able value or MISSING).
    fields: dict[str, tuple[Shape, bool, Any]] = field(default_factory=dict)
    #: Builds the Python object from keyword arguments; None leaves a dict.
    construct: Any = None


def shape_of(hint: Any, _records: dict[type, Record] | None = None) -> Shape:
    """The shape of a type hint. Raises `Unsupported` with a message for the developer."""
    records = {} if _records is None else _records
    if hint is None:
        hint = types.NoneType
    if hint in (Any, object, dataclasses.MISSING):
        return Anything()
    if isinstance(hint, type) and hint in _SCALARS:
        return Scalar(hint)
    if isinstance(hint, type) and hint in WRITINGS:
        return Written(hint)
    hint = _ABSTRACT.get(hint, hint) if isinstance(hint, type) else hint
    if hint in (list, tuple, *_SETS):
        return Array(Anything(), None if hint is list else hint)
    if hint is dict:
        return Mapping(Anything())
    if isinstance(hint, (str, typing.ForwardRef, typing.TypeVar)):
        shown = getattr(hint, "__forward_arg__", hint)
        raise Unsupported(f"the type hint {str(shown)!r} is not a type that is known here")
    if isinstance(hint, typing.NewType):
        return shape_of(hint.__supertype__, records)
    if hasattr(typing, "TypeAliasType") and isinstance(hint, typing.TypeAliasType):
        return shape_of(hint.__value__, records)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is not None:
        return _generic_shape(hint, origin, arguments, records)
    if isinstance(hint, type):
        return _class_shape(hint, records)
    raise Unsupported(f"{hint!r} has no JSON form: {_HELP}")


def _generic_shape(hint: Any, origin: Any, arguments: tuple, records: dict[type, Record]) -> Shape:
    origin = _ABSTRACT.get(origin, origin)
    if origin is typing.Annotated or origin in _TYPED_DICT_MARKS:
        return shape_of(arguments[0], records)
    if origin in (typing.Union, types.UnionType):
        return Either(tuple(shape_of(argument, records) for argument in arguments))
    if origin is typing.Literal:
        return _literal_shape(arguments)
    if origin is list:
        return Array(shape_of(arguments[0], records))
    if origin in _SETS:
        return Array(shape_of(arguments[0], records), origin)
    if origin is tuple:
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return Array(shape_of(arguments[0], records), tuple)
        return Row(tuple(shape_of(argument, records) for argument in arguments))
    if origin is dict:
        if shape_of(arguments[0]) != Scalar(str):
            raise Unsupported(f"{_name(hint)} has keys that JSON does not have: use dict[str, ...]")
        return Mapping(shape_of(arguments[1], records))
    if isinstance(origin, type) and (dataclasses.is_dataclass(origin) or typing.is_typeddict(origin)):
        return _class_shape(origin, records, hint, dict(zip(origin.__parameters__, arguments)))
    raise Unsupported(f"{_name(hint)} has no JSON form: {_HELP}")


def _literal_shape(values: tuple) -> Shape:
    members = {}
    for value in values:
        plain = value.value if isinstance(value, enum.Enum) else value
        if type(plain) not in _SCALARS:
            raise Unsupported(f"Literal[{value!r}] has no JSON form")
        members[type(plain), plain] = value
    return Choice(members)


def _class_shape(cls: type, records: dict[Any, Record], hint: Any = None, given: dict | None = None) -> Shape:
    """The shape of a class; of a generic one, `given` are the types for its variables, and `hint` is what it is called by."""
    hint, given = hint or cls, given or {}
    if issubclass(cls, enum.Enum):
        if issubclass(cls, enum.Flag):
            raise Unsupported(f"the flags {cls.__name__} have no JSON form: use int")
        members = {}
        for member in cls:
            if type(member.value) not in _SCALARS:
                raise Unsupported(f"{cls.__name__}.{member.name} is {member.value!r}, which has no JSON form")
            members[type(member.value), member.value] = member
        return Choice(members)
    if hint in records:
        return records[hint]
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        hints = _hints_of_class(cls)
        items = tuple(
            _field_shape(cls, name, hints, records) if name in hints else Anything() for name in cls._fields
        )
        return Row(items, cls._make)
    if any(base.__module__.partition(".")[0] == "pydantic" for base in cls.__mro__):
        raise Unsupported(
            f"{cls.__name__} is a model of pydantic, whose core is native code that a component cannot load: "
            "use a dataclass, and check what it holds in __post_init__"
        )
    if dataclasses.is_dataclass(cls):
        record = records[hint] = Record(cls, construct=cls)
        hints = _hints_of_class(cls, given)
        for entry in dataclasses.fields(cls):
            if not entry.init:
                raise Unsupported(f"{cls.__name__}.{entry.name} has init=False: it cannot be read back from JSON")
            required = entry.default is dataclasses.MISSING and entry.default_factory is dataclasses.MISSING
            record.fields[entry.name] = (_field_shape(cls, entry.name, hints, records), required, entry.default)
        return record
    if typing.is_typeddict(cls):
        record = records[hint] = Record(cls)
        hints = _hints_of_class(cls, given)
        for name in hints:
            required = name in cls.__required_keys__
            record.fields[name] = (_field_shape(cls, name, hints, records), required, dataclasses.MISSING)
        return record
    raise Unsupported(f"{_name(cls)} has no JSON form: {_HELP}")


def _hints_of_class(cls: type, given: dict | None = None) -> dict[str, Any]:
    try:
        hints = typing.get_type_hints(cls, include_extras=True)
    except NameError as error:
        raise Unsupported(f"{cls.__name__}: {error}") from None
    return {name: _substituted(hint, given) for name, hint in hints.items()} if given else hints


def _substituted(hint: Any, given: dict) -> Any:
    """A hint with types for the variables in it."""
    if isinstance(hint, typing.TypeVar):
        return given.get(hint, hint)
    variables = getattr(hint, "__parameters__", ())
    if not variables or isinstance(hint, type) and not isinstance(hint, types.GenericAlias):
        return hint
    return hint[tuple(given.get(variable, variable) for variable in variables)]


def _field_shape(cls: type, name: str, hints: dict[str, Any], records: dict[type, Record]) -> Shape:
    try:
        return shape_of(hints[name], records)
    except Unsupported as error:
        raise Unsupported(f"field {cls.__name__}.{name}: {error}") from None


def _name(hint: Any) -> str:
    if isinstance(hint, type) and typing.get_origin(hint) is None:
        return hint.__qualname__ if hint.__module__ == "builtins" else f"{hint.__module__}.{hint.__qualname__}"
    return repr(hint)
