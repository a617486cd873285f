"""Types of state: what is described of them, and how values of earlier ones become such of the present one."""

import json
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NamedTuple, TypedDict

import pytest

from styx import Context, DefinitionError, Entity, Operator, entity, method
from styx.testing import CallFailed, Host


@dataclass
class Item:
    cents: int
    tags: set[str] = field(default_factory=set)


def described(host: Host) -> dict[str, Any]:
    (operator,) = host.describe()
    return {function["name"]: function for function in operator["functions"]}


def shop() -> Operator:
    stock = Operator("stock", state=Item)

    @stock.register
    def reprice(ctx: Context, cents: int) -> int:
        item = ctx.state.get() or Item(0)
        before, item.cents = item.cents, cents
        ctx.state.put(item)
        return before

    @stock.register
    def look(ctx: Context) -> int:
        return ctx.state.get().cents

    @stock.register(read_only=True)
    def peek(ctx: Context) -> int:
        return ctx.state.get().cents

    @stock.register(read_only=True)
    def total(ctx: Context) -> int:
        return sum(item.cents for _, item in ctx.state.scan())

    @stock.register
    def look_at(ctx: Context, key: str) -> dict | None:
        return ctx.state.get(key, as_type=dict)

    @stock.register
    def spoil(ctx: Context) -> None:
        ctx.state.put({"cents": "three"})

    return stock


def migrating() -> Operator:
    stock = shop()

    @stock.migrate
    def from_euros(old):
        if isinstance(old, str):
            raise ValueError(f"{old} is too old")
        return Item(round(old["price"] * 100))

    return stock


def test_an_operator_tells_of_what_type_its_values_are():
    host = Host(shop())
    state = described(host)["styx.state"]
    assert json.loads(state["returns"]) == {
        "title": "Item",
        "type": "object",
        "properties": {"cents": {"type": "integer"}, "tags": {"type": "array", "items": {"type": "string"}}},
        "required": ["cents"],
    }
    assert state["parameters"] == [] and "styx.migrate" not in described(host)
    migrates = described(Host(migrating()))["styx.migrate"]
    assert (migrates["parameters"], json.loads(migrates["returns"])) == ([], {"type": "boolean"})
    untyped = Operator("plain")
    untyped.register(lambda_like)
    assert list(described(Host(untyped))) == ["lambda_like"]


def test_what_can_be_read_is_of_the_type():
    typed = Operator("price", state=Decimal)
    typed.register(lambda_like)
    schema = json.loads(described(Host(typed))["styx.state"]["returns"])
    assert schema == {"type": ["string", "integer"], "format": "decimal"}


def lambda_like(ctx: Context) -> None:
    pass


def test_values_are_of_that_type():
    host = Host(shop())
    assert host.call("stock", "pen", "reprice", 3) == 0
    assert host.call("stock", "pen", "reprice", 4) == 3
    assert host.get("stock", "pen") == {"cents": 4, "tags": []}
    with pytest.raises(CallFailed, match='stock cannot keep this: value.cents must be an integer, not "three"'):
        host.call("stock", "pen", "spoil")
    host.put("stock", "ink", {"cents": 1, "unknown": True})
    assert host.call("stock", "ink", "peek") == 1
    host.put("stock", "old", {"price": 1.5})
    with pytest.raises(CallFailed, match="the stored value does not fit: value must be an object"):
        host.call("stock", "old", "look")


class Point(NamedTuple):
    x: int
    y: int = 0


class Options(TypedDict):
    name: str


@pytest.mark.parametrize(
    "hint, value, stored, other",
    [
        (int, 3, 3, "3"),
        (list[int], [1], [1], [None]),
        (dict[str, Item], {"a": Item(1)}, {"a": {"cents": 1, "tags": []}}, {"a": 1}),
        (Point, Point(1, 2), [1, 2], {"x": 1}),
        (Options, {"name": "a"}, {"name": "a"}, {}),
        (int | None, None, None, "x"),
        (Decimal, Decimal("1.50"), "1.50", "much"),
    ],
)
def test_any_hint_is_a_type(hint, value, stored, other):
    operator = Operator("o", state=hint)

    @operator.register
    def put(ctx: Context) -> bool:
        ctx.state.put(value)
        return ctx.state.get() == value

    @operator.register
    def get(ctx: Context) -> bool:
        return ctx.state.get() == value

    @operator.migrate
    def migrate(old):
        assert old == other
        return value

    host = Host(operator)
    assert host.call(operator, "k", put) is True
    assert host.get(operator, "k") == stored
    host.put(operator, "k", other)
    assert host.call(operator, "k", get) is True
    assert host.get(operator, "k") == stored


def test_what_is_of_another_type_is_migrated_when_it_is_read():
    host = Host(migrating())
    for key in ["a", "b", "c", "d"]:
        host.put("stock", key, {"price": 1.5})
    assert host.call("stock", "a", "peek") == 150
    assert host.call("stock", "a", "total") == 600
    assert host.get("stock", "a") == {"price": 1.5}, "who only reads writes nothing"
    assert host.call("stock", "a", "look") == 150
    assert host.get("stock", "a") == {"cents": 150, "tags": []}
    assert host.call("stock", "b", "reprice", 7) == 150
    assert host.get("stock", "b") == {"cents": 7, "tags": []}
    assert host.call("stock", "a", "look_at", "c") == {"cents": 150, "tags": []}
    assert host.get("stock", "c") == {"cents": 150, "tags": []}


def test_styx_migrate_does_it_without_reading():
    host = Host(migrating())
    host.put("stock", "a", {"price": 1.5})
    assert host.call("stock", "a", "styx.migrate") is True
    assert host.get("stock", "a") == {"cents": 150, "tags": []}
    assert host.call("stock", "a", "styx.migrate") is False
    assert host.call("stock", "absent", "styx.migrate") is False
    assert host.get("stock", "absent") is None
    host.put("stock", "older", "1.5")
    with pytest.raises(CallFailed, match="1.5 is too old") as failed:
        host.call("stock", "older", "styx.migrate")
    assert failed.value.code == "ABORTED"


def test_no_function_calls_it():
    caller = Operator("caller")

    @caller.register
    def call(ctx: Context) -> None:
        ctx.call("stock", "a", "styx.migrate")

    host = Host(migrating(), caller)
    with pytest.raises(CallFailed, match='operator "stock" has no function "styx.migrate"'):
        host.call(caller, "k", call)


def test_a_migration_that_makes_something_else_is_a_bug():
    stock = shop()

    @stock.migrate
    def wrong(old):
        return {"cents": "1"}

    host = Host(stock)
    host.put("stock", "a", None)
    with pytest.raises(CallFailed, match="the migration of stock returned another type: it.cents must be an") as failed:
        host.call("stock", "a", "look")
    assert failed.value.code == "GUEST_EXCEPTION"


class Account(Entity):
    owner: str
    cents: int
    notes: list[str] = field(default_factory=list)

    @classmethod
    def migrate(cls, old):
        if isinstance(old, int):
            return {"owner": "?", "cents": old}
        return cls(owner=old["owner"], cents=old["euros"] * 100)

    @method(read_only=True)
    def peek(self) -> int:
        return self.cents

    @method(read_only=True)
    def cheat(self) -> None:
        self.cents += 1

    def look(self) -> int:
        return self.cents

    def deposit(self, cents: int) -> int:
        self.cents += cents
        return self.cents

    def deposit_via(self, other: "Account", cents: int) -> int:
        return other.deposit(cents) + self.cents

    def leave(self) -> None:
        self.delete()


def test_a_class_of_entities_migrates():
    host = Host(Account)
    assert {"styx.state", "styx.migrate", "create"} <= set(described(host))
    assert "migrate" not in described(host)
    old, new = {"owner": "ann", "euros": 3}, {"owner": "ann", "cents": 300, "notes": []}
    for key in ["a", "b", "c", "d", "e"]:
        host.put(Account, key, old)
    ann = host.at(Account, "a")
    assert ann.peek() == 300
    with pytest.raises(CallFailed) as failed:
        ann.cheat()
    assert failed.value.code == "READ_ONLY"
    assert host.get(Account, "a") == old, "who only reads writes nothing"
    assert ann.look() == 300
    assert host.get(Account, "a") == new
    assert host.at(Account, "b").deposit(5) == 305
    assert host.get(Account, "b") == {**new, "cents": 305}
    assert host.at(Account, "c").deposit_via(Account.at("d"), 1) == 301 + 300
    assert [host.get(Account, key)["cents"] for key in "cd"] == [300, 301]
    assert host.at(Account, "c").deposit_via(Account.at("c"), 1) == 301 + 301
    host.at(Account, "e").leave()
    assert host.get(Account, "e") is None

    host.put(Account, "n", 7)
    assert host.call(Account, "n", "styx.migrate") is True
    assert host.get(Account, "n") == {"owner": "?", "cents": 7, "notes": []}
    assert host.call(Account, "n", "styx.migrate") is False


def test_it_may_be_a_static_method_of_a_decorated_class():
    @entity
    class Counter:
        n: int

        @staticmethod
        def migrate(old):
            return {"n": len(old)}

        def count(self) -> int:
            self.n += 1
            return self.n

    host = Host(Counter)
    host.put(Counter, "a", [1, 2])
    assert host.at(Counter, "a").count() == 3
    assert host.get(Counter, "a") == {"n": 3}


def test_a_plain_method_of_that_name_is_a_function():
    class Bird(Entity):
        north: bool = False

        def migrate(self) -> bool:
            self.north = not self.north
            return self.north

    host = Host(Bird)
    assert host.at(Bird, "stork").migrate() is True
    assert "styx.migrate" not in described(host)


def refused(declare) -> str:
    with pytest.raises(DefinitionError) as error:
        declare()
    return str(error.value)


def test_what_is_declared_wrong_is_told():
    def no_type():
        @Operator("plain").migrate
        def migrate(old):
            return old

    def twice():
        stock = migrating()
        stock.migrate(lambda old: old)

    def no_parameter():
        Operator("o", state=int).migrate(lambda: 1)

    async def coroutine(old):
        return old

    def no_json():
        operator = Operator("o", state=complex)
        operator.register(lambda_like)
        Host(operator)

    assert "plain migrates, and does not say to what: Operator(..., state=...)" in refused(no_type)
    assert "stock has two migrations" in refused(twice)
    assert "its migration must take one parameter, the old value" in refused(no_parameter)
    assert "must be a plain function" in refused(lambda: Operator("o", state=int).migrate(coroutine))
    assert "o: its state: " in refused(no_json)
