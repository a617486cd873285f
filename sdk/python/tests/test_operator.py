"""Declaring operators and functions, and what a component says of them."""

import json
import re
from dataclasses import dataclass

import pytest

from styx import CallFailed, Context, DefinitionError, Operator
from styx.errors import failure_of
from styx.runtime import describe, functions_of
from styx.testing import Host


@dataclass
class Item:
    price: int = 0


def test_describe():
    shop = Operator("shop", key_prefix="town", doc="Shops.")
    Operator("elsewhere")

    @shop.register(read_only=True)
    def find(ctx: Context, name: str, limit: int = 10, item: Item | None = None) -> list[Item]:
        """Finds items.

        In any order.
        """

    @shop.register(name="put-item")
    def put_item(ctx, anything):
        pass

    nullable_item = {
        "anyOf": [
            {
                "title": "Item",
                "type": "object",
                "properties": {"price": {"type": "integer", "default": 0}},
                "required": [],
                "additionalProperties": False,
            },
            {"type": "null"},
        ],
        "default": None,
    }
    (described,) = describe([shop, Operator("empty")])
    for function in described["functions"]:
        function["returns"] = json.loads(function["returns"])
        for parameter in function["parameters"]:
            parameter["schema"] = json.loads(parameter["schema"])
    assert described == {
        "name": "shop",
        "key_prefix": "town",
        "doc": "Shops.",
        "functions": [
            {
                "name": "find",
                "parameters": [
                    {"name": "name", "schema": {"type": "string"}, "required": True},
                    {"name": "limit", "schema": {"type": "integer", "default": 10}, "required": False},
                    {"name": "item", "schema": nullable_item, "required": False},
                ],
                "returns": {"type": "array", "items": nullable_item["anyOf"][0]},
                "read_only": True,
                "doc": "Finds items.\n\nIn any order.",
            },
            {
                "name": "put-item",
                "parameters": [{"name": "anything", "schema": {}, "required": True}],
                "returns": {},
                "read_only": False,
                "doc": "",
            },
        ],
    }


def test_a_registered_function_stays_a_plain_function():
    @Operator("a").register
    @Operator("b").register
    def double(ctx, number: int) -> int:
        return 2 * number

    assert double(None, 4) == 8
    assert double.__name__ == "double"


@pytest.mark.parametrize("name", ["", "1a", "a b", "a.b", "a" * 65, "ä", "a\n", 7])
def test_operator_names(name):
    with pytest.raises(DefinitionError, match="operator name"):
        Operator(name)


def test_key_prefix_names():
    with pytest.raises(DefinitionError, match="key_prefix 'w:' is not allowed"):
        Operator("stock", key_prefix="w:")


def no_parameters():
    pass


def variadic(ctx, *values):
    pass


def keyword_only(ctx, *, value):
    pass


async def asynchronous(ctx):
    yield 1


async def plain_asynchronous(ctx):
    pass


def generator(ctx):
    yield 1


@pytest.mark.parametrize(
    "function, message",
    [
        (no_parameters, "shop.no_parameters: the first parameter must be the Context"),
        (variadic, "shop.variadic: parameter 'values': *args"),
        (keyword_only, "shop.keyword_only: parameter 'value': *args, **kwargs and keyword-only"),
        (generator, "shop.generator: generators cannot be registered"),
        (lambda ctx: 1, "the name is not allowed"),
        (print, "only plain functions can be registered"),
    ],
)
def test_functions_that_cannot_be_registered(function, message):
    with pytest.raises(DefinitionError) as refused:
        Operator("shop").register(function)
    assert message in str(refused.value)


def bad_parameter(ctx: Context, stamp: complex) -> None:
    pass


def bad_result(ctx: Context) -> range:
    pass


def unknown_name(ctx: Context, good: int, item: "Itme") -> None:  # noqa: F821
    pass


@pytest.mark.parametrize(
    "function, message",
    [
        (bad_parameter, "shop.bad_parameter: parameter 'stamp': complex has no JSON form"),
        (bad_result, "shop.bad_result: the result: range has no JSON form"),
        (
            unknown_name,
            "shop.unknown_name: parameter 'item' has the type hint 'Itme', which cannot be resolved: name 'Itme'",
        ),
    ],
)
def test_hints_are_refused_when_the_component_is_built(function, message):
    shop = Operator("shop")
    shop.register(function)
    with pytest.raises(DefinitionError) as refused:
        functions_of([shop])
    assert message in str(refused.value)
    assert refused.value.location == (__file__, function.__code__.co_firstlineno)


def test_names_are_taken_once():
    shop, again = Operator("shop"), Operator("shop")
    shop.register(lambda ctx: 1, name="one")
    with pytest.raises(DefinitionError, match="shop.one is registered twice"):
        shop.register(lambda ctx: 2, name="one")
    again.register(lambda ctx: 3, name="three")
    with pytest.raises(DefinitionError, match="the operator shop is already declared at .*test_operator.py:"):
        functions_of([shop, again])


def test_a_hint_may_name_what_is_defined_later():
    shop = Operator("shop")

    @shop.register
    def later(ctx: Context, item: "DefinedLater") -> None:
        pass

    assert list(functions_of([shop])) == ["shop.later"]


@dataclass
class DefinedLater:
    name: str


@pytest.mark.parametrize(
    "hint, good, bad",
    [
        (int, [1, -(2**70)], ["text", 1.5, True, None]),
        (float, [1.5, 2], ["1.5", True]),
        (str, ["a"], [1, None]),
        (bool, [True], [1]),
        (type(None), [None], [0]),
        (object, [1, "text", None], []),
    ],
)
def test_a_result_is_of_the_type_that_is_declared(hint, good, bad):
    shop = Operator("shop")

    def give(ctx: Context, index: int):
        return [*good, *bad][index]

    give.__annotations__["return"] = hint if hint is not object else list | int | str | None
    shop.register(give)
    host = Host(shop)
    for index, value in enumerate(good):
        assert host.call(shop, "a", give, index) == value
    for index, value in enumerate(bad, len(good)):
        with pytest.raises(CallFailed) as failed:
            host.call(shop, "a", give, index)
        assert failed.value.code == "GUEST_EXCEPTION"
        assert re.search(r"test_operator\.py:\d+ in give", str(failed.value)), "the place is the function's"
        assert f"the result is of type {type(value).__name__}, but {hint.__name__} is declared" in str(failed.value)


def test_what_was_not_imported_in_time_says_so(monkeypatch):
    with pytest.raises(ModuleNotFoundError) as failed:
        import nowhere  # noqa: F401
    assert "when it was built" not in failure_of(failed.value)[1]
    monkeypatch.setattr("sys.platform", "wasi")
    assert "'nowhere': a component has what was imported when it was built, so import it at the top of a module" in (
        failure_of(failed.value)[1]
    )
