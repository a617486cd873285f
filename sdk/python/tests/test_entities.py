"""Classes of entities."""

import asyncio
import datetime
import json
from dataclasses import dataclass, field
from decimal import Decimal

import pytest

from styx import CallFailed, Context, DefinitionError, Entity, Operator, entity, method
from styx.codec import to_json
from styx.operator import declared
from styx.reference import running
from styx.runtime import functions_of
from styx.testing import Host


class Item(Entity):
    """Something to buy."""

    price: int
    stock: int = 0

    @method(read_only=True)
    def get_price(self) -> int:
        return self.price

    def update_stock(self, amount: int) -> bool:
        if self.stock + amount < 0:
            return False
        self.stock += amount
        return True

    def _secret(self) -> None:
        pass

    @staticmethod
    def helper() -> int:
        return 1

    @property
    def value(self) -> int:
        return self.price * self.stock


class User(Entity):
    balance: int = 0
    last: Item | None = None
    seen: list[Item] = field(default_factory=list)

    def deposit(self, amount: int) -> int:
        self.balance += amount
        return self.balance

    def buy(self, item: Item, amount: int) -> bool:
        total = amount * item.get_price()
        if self.balance < total:
            return False
        self.balance -= total
        self.last = item
        if not item.update_stock(-amount):
            raise ValueError(f"{self.key}: not enough {item.key}")
        return True

    async def buy_all(self, items: dict[str, Item], other: "User") -> list[str]:
        bought = []
        for name, item in items.items():
            if await other.approves(self, name) and self.buy(item, 1):
                bought.append(name)
        return bought

    async def approves(self, who: "User", name: str) -> bool:
        return who.key != self.key and name != "forbidden"

    def look(self, item: Item) -> Item:
        self.seen.append(item)
        return item


@pytest.fixture
def host():
    host = Host(Item, User)
    host.create(Item, "pen", price=3, stock=10)
    return host


def test_a_user_buys(host):
    ann = host.at(User, "ann")
    assert ann.deposit(10) == 10
    assert ann.buy(Item.at("pen"), 2) is True
    assert host.calls == [("user", "ann", "buy"), ("item", "pen", "get_price"), ("item", "pen", "update_stock")]
    assert host.get(Item, "pen") == {"price": 3, "stock": 8}
    assert host.get(User, "ann") == {"balance": 4, "last": "pen", "seen": []}


def test_an_exception_aborts_everything(host):
    host.at(User, "ann").deposit(100)
    before = host.entries(User), host.entries(Item)
    with pytest.raises(CallFailed) as failed:
        host.at(User, "ann").buy(Item.at("pen"), 11)
    assert (failed.value.code, failed.value.message) == ("ABORTED", "ann: not enough pen")
    assert (host.entries(User), host.entries(Item)) == before


def test_a_method_that_changes_nothing_writes_nothing(host, monkeypatch):
    written = []
    monkeypatch.setattr(host._bridge, "_write", lambda key, value: written.append((key, value)))
    fresh = Host(User)
    assert fresh.call(User, "bob", "deposit", 0) == 0
    assert fresh.entries(User) == {}
    assert host.call("item", "pen", "get_price") == 3
    assert host.call("item", "pen", "update_stock", -99) is False
    assert written == []


def test_what_is_stored_in_other_words_is_not_a_change():
    host = Host(Item)
    host.put(Item, "old", {"stock": 1.0, "price": 2, "gone": True})
    assert host.call(Item, "old", "get_price") == 2  # read-only: it would be refused
    assert host.get(Item, "old") == {"stock": 1.0, "price": 2, "gone": True}
    host.at(Item, "old").update_stock(1)
    assert host.get(Item, "old") == {"price": 2, "stock": 2}


def test_a_read_only_method_cannot_change(host):
    class Sly(Entity):
        n: int = 0

        @method(read_only=True)
        def add(self) -> None:
            self.n += 1

    with pytest.raises(CallFailed) as failed:
        Host(Sly).at(Sly, "s").add()
    assert failed.value.code == "READ_ONLY"


def test_creation(host):
    assert host.call("item", "ink", "create", 5) == "ink"
    assert host.get(Item, "ink") == {"price": 5, "stock": 0}
    with pytest.raises(CallFailed) as failed:
        host.create(Item, "pen", 1)
    assert failed.value.full_code == "ABORTED:ALREADY_EXISTS"
    with pytest.raises(CallFailed) as failed:
        host.at(Item, "nothing").get_price()
    assert failed.value.full_code == "ABORTED:NOT_FOUND"
    assert failed.value.message == "there is no item 'nothing'"
    with pytest.raises(CallFailed) as failed:
        host.call(Item, "x", "create", "cheap")
    assert failed.value.message == 'item.create: price must be an integer, not "cheap"'


def test_an_init_of_its_own():
    class Account(Entity):
        owner: str
        opened: datetime.datetime

        def __init__(self, owner: str, bonus: int = 0) -> None:
            """Opens an account."""
            self.owner = f"{owner}/{self.key}"
            self.opened = self.ctx.now
            self.balance = bonus

        balance: int

        def get(self) -> int:
            return self.balance

    host = Host(Account)
    assert host.create(Account, "a1", "ann", bonus=7).get() == 7
    stored = host.get(Account, "a1")
    assert stored == {"owner": "ann/a1", "opened": "2023-11-14T22:13:20+00:00", "balance": 7}
    (described,) = host.describe()
    create = described["functions"][-2]
    assert [parameter["name"] for parameter in create["parameters"]] == ["owner", "bonus"]
    assert create["doc"] == "Opens an account."


def test_an_entity_without_required_arguments_begins_as_init_makes_it():
    class Counter(Entity):
        n: int

        def __init__(self) -> None:
            self.n = 40

        def add(self, by: int) -> int:
            self.n += by
            return self.n

    assert Host(Counter).at(Counter, "c").add(2) == 42


def test_descriptions(host):
    items, users = host.describe()
    assert items["doc"] == "Something to buy."
    assert [function["name"] for function in items["functions"]] == [
        "get_price",
        "update_stock",
        "create",
        "styx.state",
    ]
    assert [function["read_only"] for function in items["functions"]] == [True, False, False, True]
    buy = next(function for function in users["functions"] if function["name"] == "buy")
    schema = json.loads(buy["parameters"][0]["schema"])
    assert schema == {"type": "string", "title": "Item", "description": "key of an entity of item"}
    create = users["functions"][-2]
    assert [json.loads(parameter["schema"]).get("default") for parameter in create["parameters"]] == [0, None, []]


def test_async_methods(host):
    host.at(User, "ann").deposit(9)
    items = {"one": Item.at("pen"), "forbidden": Item.at("pen"), "two": Item.at("pen")}
    bought = asyncio.run(host.at(User, "ann").buy_all(items, User.at("bob")))
    assert bought == ["one", "two"]
    assert host.get(Item, "pen")["stock"] == 8
    assert host.call("user", "ann", "approves", "ann", "x") is False


def test_references(host):
    pen = Item.at("pen")
    assert pen == Item.at("pen") and pen != Item.at("ink") and pen != User.at("pen") and pen != "pen"
    assert {pen: 1}[Item.at("pen")] == 1
    assert isinstance(pen, Item) and not isinstance(pen, User)
    assert (repr(pen), pen.key, to_json({"a": [pen]})) == ("Item.at('pen')", "pen", b'{"a":["pen"]}')
    with pytest.raises(TypeError, match="a key must be a string"):
        Item.at(5)
    with pytest.raises(AttributeError, match="Item.price is only seen inside: write a method"):
        pen.price
    with pytest.raises(AttributeError, match="Item.stock is only seen inside"):
        pen.stock
    with pytest.raises(AttributeError, match="Item.value is only seen inside"):
        pen.value
    with pytest.raises(AttributeError, match="has no method 'prise'"):
        pen.prise
    with pytest.raises(AttributeError, match="only a method of Item can set 'price'"):
        pen.price = 3
    with pytest.raises(RuntimeError, match="while no transaction runs"):
        pen.get_price()
    with pytest.raises(RuntimeError, match="while no transaction runs"):
        Item.create("a", 3)
    assert host.at(User, "ann").look(Item.at("pen")) == pen
    assert host.get(User, "ann")["seen"] == ["pen"]
    assert running.imports is None and running.caller is None


@pytest.mark.parametrize("key", [5, None, {"key": "pen"}, ["pen"]])
def test_a_reference_is_a_string(host, key):
    with pytest.raises(CallFailed) as failed:
        host.call(User, "ann", "look", key)
    assert failed.value.code == "BAD_ARGUMENTS"
    assert failed.value.message.startswith("user.look: item must be the key of an entity of item, not")


class Ring(Entity):
    n: int = 0
    next: "Ring | None" = None

    def link(self, next: "Ring") -> None:
        self.next = next

    def around(self, left: int) -> int:
        """Changes itself, calls on, and changes itself again: it may be called meanwhile."""
        self.n += 1
        if left:
            self.next.around(left - 1)
        self.n += 1
        return self.n

    def by_context(self, left: int) -> int:
        self.n += 1
        if left:
            self.ctx.call(Ring, self.next.key, Ring.by_context, left - 1)
        self.n += 1
        return self.n

    def later(self, key: str) -> int:
        self.n += 10
        self.ctx.call_async(Ring, key, Ring.around, 0)
        return self.n

    def is_me(self, other: "Ring") -> bool:
        return other == self and self == other and hash(self) == hash(other) and other != Ring.at("nobody")

    def me(self) -> "Ring":
        return self

    def end(self) -> None:
        self.n = 99
        self.delete()


@pytest.mark.parametrize("function", ["around", "by_context"])
def test_an_entity_that_is_called_while_it_calls(function):
    host = Host(Ring)
    for key, next in (("a", "b"), ("b", "a")):
        host.at(Ring, key).link(Ring.at(next))
    assert host.call(Ring, "a", function, 5) == 6
    assert [entry["n"] for entry in host.entries(Ring).values()] == [6, 6]
    host.at(Ring, "c").link(Ring.at("c"))
    assert host.call(Ring, "c", function, 3) == 8


def test_an_entity_itself():
    host = Host(Ring)
    assert host.at(Ring, "a").is_me(Ring.at("a")) is True
    assert host.at(Ring, "a").is_me(Ring.at("b")) is False
    assert host.at(Ring, "a").me() == Ring.at("a")
    assert host.at(Ring, "a").later("a") == 10
    assert host.get(Ring, "a")["n"] == 12
    host.at(Ring, "a").end()
    assert host.get(Ring, "a") is None


class Folder(Entity):
    name: str = ""

    def empty(self, other: "Folder") -> None:
        """What it calls removes it."""
        self.name = "kept"
        other.remove(self)

    def remove(self, other: "Folder") -> None:
        other.delete()

    def delete(self) -> None:
        """Removes the folder."""
        super().delete()


def test_an_entity_that_is_removed_while_it_calls():
    host = Host(Folder)
    host.at(Folder, "a").empty(Folder.at("b"))
    assert host.entries(Folder) == {}
    assert [function["name"] for function in host.describe()[0]["functions"]] == [
        "empty",
        "remove",
        "delete",
        "create",
        "styx.state",
    ]


def test_functions_and_classes_call_each_other():
    counter = Operator("counter")

    @counter.register
    def count(ctx: Context, item: Item) -> int:
        assert ctx.call(Item, item.key, Item.update_stock, amount=1) is True
        ctx.call_async(Item, item.key, Item.update_stock, 1)
        assert item.update_stock(1)
        total = (ctx.state.get() or 0) + Item.at("pen").get_price()
        ctx.state.put(total)
        return total

    class Shop(Entity):
        visits: int = 0

        def visit(self, item: Item) -> int:
            self.visits += 1
            counted = self.ctx.call(counter, self.key, count, item) + self.ctx.call("counter", self.key, "count", "pen")
            self.visits += 1
            return counted

    host = Host(counter, Shop, Item)
    host.create(Item, "pen", 3)
    assert host.at(Shop, "s").visit(Item.at("pen")) == 9
    assert host.entries(Item)["pen"]["stock"] == 6
    assert host.get(Shop, "s") == {"visits": 2}
    assert host.get(counter, "s") == 6


def test_a_plain_class_with_a_decorator():
    class Base:
        def double(self) -> int:
            return 2 * self.n

    @entity(name="old-thing", key_prefix="town")
    class Thing(Base):
        """A thing."""

        n: int

        def double(self) -> int:
            return super().double() + 1

    @entity
    class HTTPServer2Line:
        n: int = 0

    host = Host(Thing, HTTPServer2Line)
    assert host.create(Thing, "t:1", 4).double() == 9
    described = host.describe()
    assert [operator["name"] for operator in described] == ["old-thing", "http_server2_line"]
    assert (described[0]["doc"], described[0]["key_prefix"]) == ("A thing.", "town")
    assert Thing.__name__ == "Thing" and Thing(n=3).n == 3


def test_classes_inherit():
    class Animal(Entity):
        legs: int = 4

        def count(self) -> int:
            return self.legs

        def name(self) -> str:
            return "animal"

    class Bird(Animal, name="bird"):
        legs: int = 2
        can_fly: bool = True

        def name(self) -> str:
            return "bird"

        count = None  # type: ignore[assignment]

        def legs_and(self, more: int) -> int:
            return self.legs + more

    host = Host(Animal, Bird)
    assert host.at(Animal, "a").count() == 4
    assert host.at(Bird, "a").name() == "bird"
    assert host.at(Bird, "a").legs_and(1) == 3
    assert [f["name"] for f in host.describe()[1]["functions"]] == ["name", "legs_and", "create", "styx.state"]


@dataclass
class Line:
    at: datetime.date
    total: Decimal


class Ledger(Entity):
    lines: list[Line] = field(default_factory=list)
    tags: set[str] = field(default_factory=set)

    def add(self, line: Line) -> Decimal:
        self.lines.append(line)
        self.tags.add(str(line.at.year))
        return sum((line.total for line in self.lines), Decimal(0))

    def spoil(self) -> None:
        self.tags = "no set"  # type: ignore[assignment]

    def invent(self) -> None:
        self.invented = 1

    def forget(self) -> None:
        del self.lines


def test_fields_of_every_type():
    host = Host(Ledger)
    ledger = host.at(Ledger, "l")
    ledger.add(Line(datetime.date(2026, 3, 1), Decimal("1.50")))
    assert ledger.add(Line(datetime.date(2027, 3, 1), Decimal("2.50"))) == Decimal("4.00")
    stored = host.get(Ledger, "l")
    assert stored["lines"][0] == {"at": "2026-03-01", "total": "1.50"} and stored["tags"] == ["2026", "2027"]


@pytest.mark.parametrize(
    "function, message",
    [
        ("spoil", 'TypeError: Ledger cannot keep this: self.tags must be an array, not "no set"'),
        ("forget", "AttributeError: Ledger.lines was never set"),
    ],
)
def test_what_could_not_be_read_again_is_not_stored(function, message):
    host = Host(Ledger)
    with pytest.raises(CallFailed) as failed:
        host.call(Ledger, "l", function)
    assert failed.value.code == "GUEST_EXCEPTION" and message in failed.value.message
    assert host.entries(Ledger) == {}


def test_what_is_no_field_is_told():
    host = Host(Ledger)
    with pytest.raises(CallFailed, match="'invented' is no field of Ledger: declare it in the class"):
        host.call(Ledger, "l", "invent")


def test_what_is_stored_and_does_not_fit():
    host = Host(Item)
    host.put(Item, "pen", {"price": "dear"})
    with pytest.raises(CallFailed, match='what is stored does not fit Item: it.price must be an integer, not "dear"'):
        host.at(Item, "pen").get_price()


def test_instances_outside_of_transactions():
    item = Item(price=3, stock=2)
    assert item.update_stock(1) and item.value == 9 and item != Item(price=3, stock=3)
    assert repr(item) == "Item(price=3, stock=3)"
    with pytest.raises(RuntimeError, match="made outside of a transaction: it has no key"):
        item.key


HERE = __file__


def wrong(source: str) -> list[tuple[str, int]]:
    """What is wrong with a module, and in which of its lines."""
    before = len(declared)
    try:
        exec(
            compile("from styx import *\nfrom dataclasses import field\n" + source, HERE, "exec"), {"__name__": "styx"}
        )
        functions_of(declared[before:])
    except Exception as error:
        errors = getattr(error, "errors", [error])
        assert all(isinstance(error, DefinitionError) and error.location[0] == HERE for error in errors), errors
        return [(str(error), error.location[1] - 2) for error in errors]
    finally:
        del declared[before:]
    return []


@pytest.mark.parametrize(
    "source, message, line",
    [
        ("class A(Entity):\n  x: complex\n", "a: field 'x': complex has no JSON form", 1),
        ("class A(Entity):\n  x: 'Nobody'\n", "a: the type hint of a field cannot be resolved: name 'Nobody'", 1),
        ("class A(Entity):\n  key: str\n", "a: every entity has 'key' already", 1),
        ("class A(Entity):\n  ctx: str = ''\n", "a: every entity has 'ctx' already", 1),
        ("class A(Entity):\n  def at(self): pass\n", "a: every entity has 'at' already", 1),
        ("class A(Entity):\n  def create(self): pass\n", "a: every entity has 'create' already", 1),
        (
            "class A(Entity):\n  @method(name='create')\n  def make(self): pass\n",
            "a: every entity has 'create' already",
            1,
        ),
        (
            "class A(Entity):\n  @method(name='b')\n  def a(self): pass\n  def b(self): pass\n",
            "a.b is declared twice",
            4,
        ),
        ("\nclass A(Entity, name='a b'):\n  pass\n", "operator name 'a b' is not allowed", 2),
        ("class A(Entity):\n  x: int = 1\n  y: int\n", "A: non-default argument 'y' follows default argument", 1),
        ("class A(Entity):\n  x: list = []\n", "A: mutable default <class 'list'> for field x is not allowed", 1),
        ("class A(Entity):\n  def f(self, x: complex): pass\n", "a.f: parameter 'x': complex has no JSON form", 2),
        ("class A(Entity):\n  def f(self) -> range: pass\n", "a.f: the result: range has no JSON form", 2),
        ("class A(Entity):\n  def f(self, *x): pass\n", "a.f: parameter 'x': *args", 2),
        ("class A(Entity):\n  def f(): pass\n", "a.f: the first parameter must be", 2),
        ("class A(Entity):\n  def f(self):\n    yield 1\n", "a.f: generators cannot be registered", 2),
        (
            "class A(Entity):\n  x: int = field(kw_only=True)\n",
            "a.create: parameter 'x': *args, **kwargs and keyword-only",
            1,
        ),
        ("class A(Entity):\n  x: int\n  def __init__(self, y: complex): pass\n", "a.create: parameter 'y': complex", 3),
        ("@entity\nclass A(Entity):\n  pass\n", "A derives from Entity: it needs no decorator", 1),
        ("\n@entity\nclass A:\n  x: complex = 1\n", "a: field 'x': complex has no JSON form", 2),
        ("class A(Entity):\n  pass\nclass B(Entity, name='a'):\n  pass\n", "the operator a is already declared at", 3),
    ],
)
def test_what_is_declared_wrongly(source, message, line):
    ((found, found_line),) = wrong(source)
    assert found.startswith(message)
    assert found_line == line


def test_all_that_is_wrong_is_told_at_once():
    found = wrong("class A(Entity):\n  x: complex\n  def f(self, y: complex): pass\nclass B(Entity):\n  x: range\n")
    assert [line for _, line in found] == [3, 1, 4]
