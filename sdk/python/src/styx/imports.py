"""What the SDK needs from whoever runs it: the host of a component, or the test host.

Names and meanings are those of the guest contract. One object implements all
of it, so that everything above it runs unchanged with and without WebAssembly.
"""

from typing import Protocol


class Imports(Protocol):
    """The imports of the world `function`, for the invocation that is running."""

    def get_own(self) -> bytes | None:
        """The value of the invoked entity."""

    def put_own(self, value: bytes) -> None:
        """Writes the invoked entity."""

    def delete_own(self) -> None:
        """Removes the invoked entity."""

    def get(self, key: str) -> bytes | None:
        """The value of an entity of the same operator."""

    def put(self, key: str, value: bytes) -> None:
        """Writes an entity of the same operator."""

    def delete(self, key: str) -> None:
        """Removes an entity of the same operator."""

    def scan(
        self, prefix: str, lower: tuple[str, bool] | None, upper: tuple[str, bool] | None, limit: int, reverse: bool
    ) -> list[tuple[str, bytes]]:
        """Entities of the same operator in key order; a bound is (key, whether it is included), limit 0 is none."""

    def call(self, operator: str, key: str, function: str, args: bytes) -> bytes:
        """Runs a function in this transaction. Raises `CallFailed`."""

    def call_async(self, operator: str, key: str, function: str, args: bytes) -> None:
        """Has a function run after the present one."""

    def app(self) -> str:
        """Name of the app."""

    def tid(self) -> int:
        """Transaction id."""

    def request_id(self) -> str:
        """Id of the request."""

    def time(self) -> int:
        """When the transaction was sequenced, in microseconds since 1970."""

    def random(self) -> int:
        """The next 64 random bits of this invocation."""

    def log(self, level: str, message: str) -> None:
        """A log line; level is debug, info, warn or error."""
