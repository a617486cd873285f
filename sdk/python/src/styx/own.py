"""What is known of the entity behind an instance, and when its fields are written and read."""

from typing import Any

from styx.context import Context
from styx.fields import OWN, Fields, Unfit


class Own:
    """Of one instance. It does not hold the instance: that one holds it."""

    __slots__ = ("context", "fields", "stored", "unchanged", "values", "is_deleted")

    def __init__(self, context: Context, fields: Fields, stored: bytes | None) -> None:
        self.context = context
        self.fields = fields
        #: What the host has; None for nothing.
        self.stored = stored
        #: What the fields are written as while nothing is changed.
        self.unchanged = stored
        #: The fields' values as they were read, if that alone tells whether they are changed.
        self.values: dict[str, Any] | None = None
        self.is_deleted = False

    def load(self, instance: Any) -> None:
        """Sets the fields to what is stored, or to what is made of it if that is of an earlier type."""
        try:
            self.values = self.fields.read(instance, self.stored)
            return
        except Unfit as error:
            stored = type(instance)._styx_operator.stored
            if stored.migration is None:
                raise
            unfit = error
        self.fields.read(instance, stored.migrate(unfit.values))
        self.values = None
        # It is written with the next change of it, but by who only reads.
        self.unchanged = self.fields.write(instance) if self.context._function.read_only else None

    def flush(self, instance: Any) -> None:
        """Writes the fields, if they are changed: whoever is called next sees them."""
        if self.is_deleted or self.values is not None and self.fields.has(instance, self.values):
            return
        data = self.fields.write(instance)
        if data == self.unchanged or self.context._function.read_only and self._is_stored(data, type(instance)):
            return
        self.fields.check(instance, data)
        self.context.state._put_own(data)
        self.stored = self.unchanged = data
        self.values = None

    def refresh(self, instance: Any) -> None:
        """Reads the fields again, if somebody who was called has changed them."""
        data = self.context.state._get_own()
        if data == self.stored or self.is_deleted:
            return
        self.stored = data
        if data is not None:
            self.unchanged = data
            self.load(instance)

    def delete(self) -> None:
        """Removes the entity. What its fields are does not matter any more."""
        self.is_deleted = True
        self.context.state.delete()

    def _is_stored(self, data: bytes, cls: type) -> bool:
        """Whether what is written says in other words what is stored: a field is new, a number has another form."""
        if self.stored is None:
            return False
        again = cls.__new__(cls)
        try:
            self.fields.read(again, self.stored)
        except Unfit:  # it was migrated, and is changed since then
            return False
        return self.fields.write(again) == data


def own_of(instance: Any) -> Own:
    """Raises RuntimeError for an instance that is no entity."""
    own = instance.__dict__.get(OWN)
    if own is None:
        name = type(instance).__name__
        raise RuntimeError(f"this {name} was made outside of a transaction: it has no key and no context")
    return own
