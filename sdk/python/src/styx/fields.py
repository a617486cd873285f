"""The fields of a class of entities: from what is stored to an instance, and back."""

import dataclasses
import typing
from typing import Any

from styx.codec import from_json, to_json
from styx.convert import Converter, Mismatch, converter_of_shape, exact_type
from styx.shape import Record, Unsupported, shape_of

#: Where an instance keeps what is known of its entity, beside its fields.
OWN = "_styx_own"


class Unfit(ValueError):
    """What is stored is not what the fields say."""

    def __init__(self, message: str, values: Any) -> None:
        super().__init__(message)
        #: What is stored, as JSON has it.
        self.values = values


class Fields:
    """What a class declares. Hints are resolved by `prepare`, as they may name what is defined later."""

    def __init__(self, cls: type) -> None:
        self._cls = cls
        self._fields = dataclasses.fields(cls)
        self._names = tuple(field.name for field in self._fields)
        self._record: Record | None = None
        self._convert: Converter | None = None
        #: The types of all fields, if they are such that values of them need no conversion and cannot change.
        self._exact_types: list[type | None] | None = None

    def prepare(self) -> None:
        """Raises `Unsupported` for a hint that has no JSON form; does nothing the second time."""
        if self._record is not None:
            return
        record = Record(self._cls)
        hints = self.hints()
        for field in self._fields:
            required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
            try:
                record.fields[field.name] = (shape_of(hints[field.name]), required, field.default)
            except Unsupported as error:
                raise Unsupported(f"field '{field.name}': {error}") from None
        # Not strict: state outlives the code that wrote it.
        self._record, self._convert = record, converter_of_shape(record, strict=False)
        exact = [exact_type(shape) for shape, _, _ in record.fields.values()]
        self._exact_types = None if None in exact else exact

    @property
    def record(self) -> Record:
        """All of them together, once they are prepared."""
        assert self._record is not None
        return self._record

    def hints(self) -> dict[str, Any]:
        """The hints of all fields. Raises `Unsupported` for one that cannot be resolved."""
        try:
            return typing.get_type_hints(self._cls, include_extras=True)
        except Exception as error:
            raise Unsupported(f"the type hint of a field cannot be resolved: {error}") from None

    def read(self, entity: Any, data: bytes) -> dict[str, Any] | None:
        """Sets an instance's fields to what is stored; those that are new since then have their defaults.

        Returns the values if none of them can change in its place, for `has`.
        """
        values = from_json(data)
        if type(values) is dict and (*values,) == self._names and [*map(type, values.values())] == self._exact_types:
            entity.__dict__.update(values)
            return values
        try:
            values = self._convert(values)
        except Mismatch as mismatch:
            message = f"what is stored does not fit {self._cls.__name__}: {mismatch.describe('it')}"
            raise Unfit(message, values) from None
        if len(values) < len(self._names):
            for field in self._fields:
                if field.name not in values:
                    has_value = field.default is not dataclasses.MISSING
                    values[field.name] = field.default if has_value else field.default_factory()
        entity.__dict__.update(values)
        return None

    def has(self, entity: Any, values: dict[str, Any]) -> bool:
        """Whether an instance's fields are still these very values."""
        own = entity.__dict__
        if len(own) != len(values) + 1:
            return False
        for name, value in values.items():
            if own.get(name, OWN) is not value:
                return False
        return True

    def write(self, entity: Any) -> bytes:
        """An instance's fields as they are stored."""
        own = entity.__dict__
        if len(own) > len(self._names) + 1:
            unknown = next(name for name in own if name not in self._names and name != OWN)
            raise TypeError(f"{unknown!r} is no field of {self._cls.__name__}: declare it in the class, with its type")
        try:
            return to_json({name: own[name] for name in self._names})
        except KeyError as error:
            raise AttributeError(f"{self._cls.__name__}.{error.args[0]} was never set") from None

    def check(self, entity: Any, data: bytes) -> None:
        """What is about to be stored, of an instance, must be readable again: raises TypeError."""
        own = entity.__dict__
        if self._exact_types is not None and [type(own[name]) for name in self._names] == self._exact_types:
            return
        try:
            self._convert(from_json(data))
        except Mismatch as mismatch:
            raise TypeError(f"{self._cls.__name__} cannot keep this: {mismatch.describe('self')}") from None
