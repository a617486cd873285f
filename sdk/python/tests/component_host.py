"""Runs a component with wasmtime's Python package: the guest contract over a dict.

Just enough to test the SDK inside WebAssembly: no transactions, a fresh
instance for every nested call. WASI answers with the real clock and real
randomness here; in the product the host answers from the transaction.
"""

from pathlib import Path

from wasmtime import Config, Engine, Store, WasiConfig
from wasmtime.component import Component, Linker, Record

from styx.determinism import stream

PACKAGE = "styx:guest/{}@0.1.0"
MEMORY_BYTES_MAX = 128 << 20


class Failed(Exception):
    """The `err` of `invoke`."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(code, message)


class ComponentHost:
    """One warm instance of a component, and the state that it sees."""

    def __init__(self, path: Path) -> None:
        config = Config()
        config.max_wasm_stack = 1 << 20
        self.engine = Engine(config)
        self.component = Component.from_file(self.engine, str(path))
        self.state: dict[tuple[str, str], bytes] = {}
        self.logs: list[tuple[str, str]] = []
        self.issued: list[tuple[str, str, str, bytes]] = []
        self.renew()

    def renew(self) -> None:
        """Starts over with a fresh instance."""
        self._store = Store(self.engine)
        self._store.set_limits(memory_size=MEMORY_BYTES_MAX)
        self._store.set_wasi(WasiConfig())
        self._instance = self._link().instantiate(self._store, self.component)

    def names(self) -> tuple[set[str], set[str]]:
        """What the component imports and exports."""
        with self.component.type as type:
            return set(type.imports(self.engine)), set(type.exports(self.engine))

    def describe(self) -> Record:
        """The export `describe`."""
        function = self._instance.get_func(self._store, "describe")
        try:
            return function(self._store)
        finally:
            function.post_return(self._store)

    def invoke(self, function: str, key: str, args: bytes, seed: int = 1) -> bytes:
        """The export `invoke`; random numbers come from `seed`."""
        self._operator, self._key, self._draw = function.partition(".")[0], key, stream(seed)
        export = self._instance.get_func(self._store, "invoke")
        result = export(self._store, function, key, args)
        export.post_return(self._store)
        if isinstance(result, bytes):
            return result
        raise Failed(result.code, result.message)

    def _link(self) -> Linker:
        linker = Linker(self.engine)
        linker.add_wasip2()
        interfaces = {
            "state": {
                "get": lambda store, key: self.state.get((self._operator, key)),
                "put": lambda store, key, value: self._put(key, value),
                "delete": lambda store, key: self._delete(key),
                "scan": lambda store, range, limit, reverse: self._scan(range, limit, reverse),
                "get-own": lambda store: self.state.get((self._operator, self._key)),
                "put-own": lambda store, value: self._put(self._key, value),
                "delete-own": lambda store: self._delete(self._key),
            },
            "calls": {
                "call": lambda store, *call: self._call(*call),
                "call-async": lambda store, *call: self.issued.append(call),
            },
            "context": {
                "app": lambda store: "lab",
                "operator": lambda store: self._operator,
                "key": lambda store: self._key,
                "tid": lambda store: 7,
                "request-id": lambda store: "rq_1",
                "time": lambda store: 1_700_000_000_123_456,
                "random": lambda store: self._draw(),
            },
            "logging": {"log": lambda store, level, message: self.logs.append((level, message))},
        }
        with linker.root() as root:
            for interface, functions in interfaces.items():
                with root.add_instance(PACKAGE.format(interface)) as instance:
                    for name, function in functions.items():
                        instance.add_func(name, function)
        return linker

    def _put(self, key: str, value: bytes) -> None:
        self.state[self._operator, key] = value

    def _delete(self, key: str) -> None:
        self.state.pop((self._operator, key), None)

    def _scan(self, range: Record, limit: int, reverse: bool) -> list[tuple[str, bytes]]:
        def within(key: str) -> bool:
            lower, upper = range.lower, range.upper
            return (
                key.startswith(range.prefix)
                and (
                    lower.tag == "unbounded"
                    or key > lower.payload
                    or (lower.tag == "included" and key == lower.payload)
                )
                and (
                    upper.tag == "unbounded"
                    or key < upper.payload
                    or (upper.tag == "included" and key == upper.payload)
                )
            )

        found = [(key, value) for (owner, key), value in self.state.items() if owner == self._operator and within(key)]
        found.sort(reverse=reverse)
        return found[:limit] if limit else found

    def _call(self, operator: str, key: str, function: str, args: bytes) -> bytes | Record:
        other = object.__new__(ComponentHost)
        other.engine, other.component, other.state = self.engine, self.component, self.state
        other.logs, other.issued = self.logs, self.issued
        other.renew()
        try:
            return other.invoke(f"{operator}.{function}", key, args)
        except Failed as failed:
            record = Record()
            record.code, record.message = failed.args
            return record
