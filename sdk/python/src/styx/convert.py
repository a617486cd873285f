"""Shapes as converters from JSON values to what the type hints promise.

The other direction needs no hints: `codec.to_json` knows dataclasses and enums
by themselves. A converter is made once, at build time; a shape that accepts
everything has none (`None`), so that the hot path can skip it.
"""

from collections.abc import Callable
from typing import Any

from styx.shape import Anything, Array, Choice, Either, Mapping, Record, Row, Scalar, Shape, Written, shape_of
from styx.written import WRITINGS

Converter = Callable[[Any], Any]

_NAMES = {str: "a string", int: "an integer", float: "a number", bool: "true or false", type(None): "null"}


class Mismatch(Exception):
    """A JSON value that does not fit its shape; `path` leads to it from outside."""

    def __init__(self, expected: str, value: Any) -> None:
        super().__init__(expected)
        self.expected = expected
        self.value = value
        self.path: list[str | int] = []

    def describe(self, root: str) -> str:
        """One line that says what is wrong and where, e.g. `items[2].price must be a number, not "x"`."""
        where = root + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.path)
        shown = _shown(self.value)
        return f"{where} must be {self.expected}, not {shown}"


def converter_of(hint: Any, *, strict: bool = True) -> Converter | None:
    """The converter of a type hint. `strict` refuses unknown fields of records."""
    return converter_of_shape(shape_of(hint), strict=strict)


def converter_of_shape(shape: Shape, *, strict: bool = True) -> Converter | None:
    """The converter of a shape, or None if every JSON value passes unchanged."""
    return _Compiler(strict).compile(shape)


def exact_type(shape: Shape) -> type | None:
    """The one Python type whose values pass a shape unchanged, if there is one."""
    return shape.type if isinstance(shape, Scalar) else None


def keeps_values(shape: Shape) -> bool:
    """Whether a converter of this shape returns what it is given, so that trusted data can skip it."""
    match shape:
        case Anything():
            return True
        case Scalar(type):
            return type is not float  # an integral number comes back as int
        case Array(item, make):
            return make is None and keeps_values(item)
        case Mapping(value):
            return keeps_values(value)
        case Choice(members):
            return all(
                member is value or member == value and type(member) is kind for (kind, value), member in members.items()
            )
        case Either(options):
            return all(keeps_values(option) for option in options)
    return False


class _Compiler:
    def __init__(self, strict: bool) -> None:
        self._strict = strict
        self._records: dict[Record, Converter] = {}

    def compile(self, shape: Shape) -> Converter | None:
        match shape:
            case Anything():
                return None
            case Scalar(type):
                return _SCALAR_CONVERTERS[type]
            case Array(item, make):
                return _array(self.compile(item), make)
            case Row(items, construct):
                return _row([self.compile(item) for item in items], construct or tuple)
            case Written(type):
                return _written(type)
            case Mapping(value):
                return _mapping(self.compile(value))
            case Choice(members):
                return _choice(members)
            case Either(options):
                return self._either(options)
            case Record():
                return self._record(shape)
        raise AssertionError(f"no converter for {shape!r}")

    def _either(self, options: tuple[Shape, ...]) -> Converter | None:
        if any(isinstance(option, Anything) for option in options):
            return None
        # A float accepts integers and changes them, so it is asked last.
        ordered = sorted(options, key=lambda option: option == Scalar(float))
        converters = [self.compile(option) for option in ordered]
        # Text may stand for what comes before a string.
        written = any(isinstance(option, Written) for option in options)
        exact = frozenset(
            option.type for option in options if isinstance(option, Scalar) and not (written and option.type is str)
        )

        def convert(value: Any) -> Any:
            if type(value) in exact:
                return value
            expected = []
            deepest = None
            for converter in converters:
                try:
                    return converter(value)
                except Mismatch as mismatch:
                    expected.append(mismatch.expected)
                    if mismatch.path and (deepest is None or len(mismatch.path) > len(deepest.path)):
                        deepest = mismatch
            # A record that almost fits explains more than the list of all options.
            raise deepest or Mismatch(" or ".join(dict.fromkeys(expected)), value)

        return convert

    def _record(self, record: Record) -> Converter:
        if record in self._records:
            return self._records[record]
        converters: dict[str, Converter | None] = {}
        construct, strict, name = record.construct, self._strict, record.cls.__name__

        def convert(value: Any) -> Any:
            if type(value) is not dict:
                raise Mismatch(f"an object ({name})", value)
            result = {}
            for key, item in value.items():
                try:
                    converter = converters[key]
                except KeyError:
                    if strict:
                        raise Mismatch(f"an object ({name}) without the field {_shown(key)}", value) from None
                    continue
                if converter is not None:
                    try:
                        item = converter(item)
                    except Mismatch as mismatch:
                        mismatch.path.insert(0, key)
                        raise
                result[key] = item
            for key in required:
                if key not in result:
                    raise Mismatch(f"an object ({name}) with the field {_shown(key)}", value)
            return result if construct is None else construct(**result)

        self._records[record] = convert
        required = [key for key, (_, needed, _) in record.fields.items() if needed]
        for key, (shape, _, _) in record.fields.items():
            converters[key] = self.compile(shape)
        return convert


def _integer(value: Any) -> int:
    if type(value) is int:
        return value
    if type(value) is float and value.is_integer():  # JSON does not tell 1 from 1.0
        return int(value)
    raise Mismatch(_NAMES[int], value)


def _number(value: Any) -> float:
    if type(value) is float:
        return value
    if type(value) is int:
        try:
            return float(value)
        except OverflowError:
            pass
    raise Mismatch(_NAMES[float], value)


def _exactly(kind: type) -> Converter:
    expected = _NAMES[kind]

    def convert(value: Any) -> Any:
        if type(value) is not kind:
            raise Mismatch(expected, value)
        return value

    return convert


_SCALAR_CONVERTERS: dict[type, Converter] = {
    int: _integer,
    float: _number,
    str: _exactly(str),
    bool: _exactly(bool),
    type(None): _exactly(type(None)),
}


def _items(values: list, converter: Converter) -> list:
    index = 0
    try:
        result = []
        for index, value in enumerate(values):
            result.append(converter(value))
        return result
    except Mismatch as mismatch:
        mismatch.path.insert(0, index)
        raise


def _written(kind: type) -> Converter:
    writing = WRITINGS[kind]

    def convert(value: Any) -> Any:
        try:
            return writing.read(value)
        except ValueError:
            raise Mismatch(writing.name, value) from None

    return convert


def _array(converter: Converter | None, make: Any) -> Converter:
    def convert(value: Any) -> Any:
        if type(value) is not list:
            raise Mismatch("an array", value)
        if converter is not None:
            value = _items(value, converter)
        if make is None:
            return value
        try:
            return make(value)
        except TypeError:  # what cannot be in a set
            raise Mismatch("an array of what can be in a set", value) from None

    return convert


def _row(converters: list[Converter | None], construct: Any) -> Converter:
    length = len(converters)

    def convert(value: Any) -> Any:
        if type(value) is not list or len(value) != length:
            raise Mismatch(f"an array of {length}", value)
        result = []
        for index, (item, converter) in enumerate(zip(value, converters)):
            try:
                result.append(item if converter is None else converter(item))
            except Mismatch as mismatch:
                mismatch.path.insert(0, index)
                raise
        return construct(result)

    return convert


def _mapping(converter: Converter | None) -> Converter:
    def convert(value: Any) -> Any:
        if type(value) is not dict:
            raise Mismatch("an object", value)
        if converter is None:
            return value
        result = {}
        for key, item in value.items():
            try:
                result[key] = converter(item)
            except Mismatch as mismatch:
                mismatch.path.insert(0, key)
                raise
        return result

    return convert


def _choice(members: dict[tuple[type, Any], Any]) -> Converter:
    expected = "one of " + ", ".join(_shown(value) for _, value in members)

    def convert(value: Any) -> Any:
        try:
            return members[type(value), value]
        except (KeyError, TypeError):
            raise Mismatch(expected, value) from None

    return convert


def _shown(value: Any) -> str:
    """A value for a message: short, and as JSON writes it."""
    if value is None or value is True or value is False:
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return '"' + (value if len(value) <= 40 else value[:37] + "...") + '"'
    if isinstance(value, (int, float)):
        try:
            text = repr(value)
        except ValueError:  # more digits than Python is willing to print
            return "a huge number"
        return text if len(text) <= 40 else text[:37] + "..."
    return "an array" if isinstance(value, (list, tuple)) else "an object"
