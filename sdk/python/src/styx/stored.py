"""The type of an operator's values, and how those of earlier types become values of it.

The host learns the type as a JSON Schema, compares it with entities that exist when a
version is deployed, and has `styx.migrate` run on those that are not of it.
"""

import inspect
from collections.abc import Callable
from typing import Any

from styx.codec import from_json, to_json
from styx.convert import Converter, Mismatch, converter_of_shape
from styx.errors import DefinitionError
from styx.operator import Function, Operator
from styx.schema import schema_of_shape
from styx.shape import Scalar, Shape, Unsupported, shape_of

#: Names under which `describe` tells of it; functions cannot have such.
STATE, MIGRATE = "styx.state", "styx.migrate"


class StoredType:
    """What the values of an operator are: `Operator(..., state=Item)`."""

    def __init__(self, operator: Operator, hint: Any) -> None:
        self.hint = hint
        #: Makes a value of the type from one that is not, as JSON has it.
        self.migration: Callable[[Any], Any] | None = None
        self._operator = operator
        self._shape: Shape | None = None
        self._convert: Converter | None = None

    def prepare(self) -> None:
        """Resolves the type. Raises `DefinitionError`; does nothing the second time."""
        if self._shape is not None:
            return
        try:
            self._shape = self._resolve()
        except Unsupported as error:
            raise DefinitionError(f"{self._operator.name}: its state: {error}", self._operator.location) from None
        # Not strict: state outlives the code that wrote it.
        self._convert = converter_of_shape(self._shape, strict=False)

    def _resolve(self) -> Shape:
        return shape_of(self.hint)

    def describe(self) -> list[dict[str, Any]]:
        """What the contract says of it, among the operator's functions."""
        self.prepare()
        schema = to_json(schema_of_shape(self._shape, strict=False)).decode()
        state = {"name": STATE, "parameters": [], "returns": schema, "read_only": True, "doc": ""}
        return [state] if self.migration is None else [state, Migrating(self).describe()]

    def migrates_by(self, migration: Any, location: tuple[str, int] | None) -> None:
        """Takes a function of one parameter, the old value. Raises `DefinitionError`."""
        name = self._operator.name
        if not callable(migration) or inspect.iscoroutinefunction(migration):
            raise DefinitionError(f"{name}: its migration must be a plain function", location)
        if self.migration is not None:
            raise DefinitionError(f"{name} has two migrations: let one tell all earlier values apart", location)
        try:
            inspect.signature(migration).bind(None)
        except TypeError:
            raise DefinitionError(
                f"{name}: its migration must take one parameter, the old value", location
            ) from None
        self.migration = migration

    def read(self, data: bytes) -> tuple[Any, bytes | None]:
        """A stored value, and what is to be stored instead if it had to be migrated."""
        values = from_json(data)
        try:
            return self.convert(values), None
        except Mismatch as mismatch:
            wrong = mismatch
        if self.migration is None:
            raise ValueError(f"the stored value does not fit: {wrong.describe('value')}")
        migrated = self.migrate(values)
        return self.convert(from_json(migrated)), migrated

    def migrated(self, data: bytes) -> bytes | None:
        """What is to be stored instead of a value that is not of the type."""
        return self.read(data)[1]

    def migrate(self, values: Any) -> bytes:
        """What the migration makes of a value. Raises TypeError if that is not of the type either."""
        assert self.migration is not None
        data = self._written(self.migration(values))
        try:
            self.convert(from_json(data))
        except Mismatch as mismatch:
            name = self._operator.name
            raise TypeError(f"the migration of {name} returned another type: {mismatch.describe('it')}") from None
        return data

    def check(self, data: bytes) -> None:
        """What is about to be stored must be readable again: raises TypeError."""
        try:
            self.convert(from_json(data))
        except Mismatch as mismatch:
            raise TypeError(f"{self._operator.name} cannot keep this: {mismatch.describe('value')}") from None

    def convert(self, values: Any) -> Any:
        """A value as JSON has it, as the type. Raises `Mismatch`."""
        return values if self._convert is None else self._convert(values)

    def _written(self, made: Any) -> bytes:
        return to_json(made)


class Migrating(Function):
    """`styx.migrate`: brings the invoked entity to the present type; true if it was of another one."""

    def __init__(self, stored: StoredType) -> None:
        operator = stored._operator
        self.location = operator.location
        self.operator_name = operator.name
        self.name = MIGRATE
        self.read_only = False
        self.is_async = False
        self.doc = "Brings the entity to the type that its operator has now."
        self.stored = None
        self.parameters = ()
        self.parameter_names = []
        self.returns = Scalar(bool)
        self.exact_types = []
        self.exact_result = bool
        self.read_result = None
        self._signature = []
        self._converters = []
        self._required_count = 0
        self._is_prepared = True

        def run(ctx: Any) -> bool:
            data = ctx.state._get_own()
            migrated = None if data is None else stored.migrated(data)
            if migrated is None:
                return False
            ctx.state._put_own(migrated)
            return True

        self.python = run
