"""JSON as bytes, both ways, on the hot path of every invocation.

The C encoder and scanner of the standard library are made once; `json.dumps`
would make an encoder per call. Equal values built in the same order give equal
bytes, and what JSON cannot express (NaN, infinities, lone surrogates, other
objects) is refused instead of approximated.
"""

import enum
import json
import re
from dataclasses import fields, is_dataclass
from json import encoder as _encoder
from json import scanner as _scanner
from typing import Any

from styx.written import WRITINGS, writing_of


#: Names of the fields of dataclasses that were written before.
_field_names: dict[type, tuple[str, ...]] = {}


def _plain(value: Any) -> Any:
    """JSON's hook for what it does not know: dataclasses, enums, sets, dates and the like become plain values."""
    names = _field_names.get(type(value))
    if names is not None:
        return {name: getattr(value, name) for name in names}
    if isinstance(value, enum.Enum):
        return value.value
    # An entity has fields, and is written as its key.
    if is_dataclass(value) and not isinstance(value, type) and type(value) not in WRITINGS:
        _field_names[type(value)] = tuple(field.name for field in fields(value))
        return _plain(value)
    if isinstance(value, (set, frozenset)):
        # A set has no order: that of its items' texts is the same everywhere.
        texts = sorted((to_json(item).decode(), index, item) for index, item in enumerate(value))
        return [item for _, _, item in texts]
    writing = writing_of(value)
    if writing is not None:
        return writing.write(value)
    raise TypeError(f"a value of type {type(value).__name__} has no JSON form")


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")


_open_containers: dict[int, Any] = {}
_encode = (_encoder.c_make_encoder or _encoder._make_iterencode)(
    _open_containers,  # finds circular references
    _plain,
    _encoder.encode_basestring,
    None,  # no indentation
    ":",
    ",",
    False,  # keys stay in the order in which the program inserted them
    False,  # keys that JSON cannot express are errors
    False,  # so are NaN and the infinities
)
_decoder = json.JSONDecoder(parse_constant=_refuse_constant)
_scan = (_scanner.c_make_scanner or _scanner.py_make_scanner)(_decoder)


# -0 is a number of its own, which no `int` is. Dates and UUIDs have those two characters too, but go on.
_MINUS_ZERO = re.compile(r"-0(?=[,\]} \t\n\r]|\Z)")
_exact_decoder = json.JSONDecoder(
    parse_int=lambda text: -0.0 if text == "-0" else int(text), parse_constant=_refuse_constant
)


def to_json(value: Any) -> bytes:
    """`value` as compact JSON. Raises TypeError or ValueError for what JSON cannot express."""
    try:
        return "".join(_encode(value, 0)).encode()
    except BaseException:
        _open_containers.clear()
        raise


def from_json(data: bytes) -> Any:
    """The value of a JSON text. Raises ValueError for anything else."""
    text = data.decode()
    if "-0" in text and _MINUS_ZERO.search(text):
        return _exact_decoder.decode(text)
    try:
        value, end = _scan(text, 0)
        if end == len(text):
            return value
    except StopIteration:
        pass
    # Blanks around the value, or an error that deserves a position.
    return _decoder.decode(text)
