"""Calls, aborts and their order, on the in-memory host."""

import enum
import json
import sys
import traceback
from dataclasses import dataclass

import pytest

import styx
from styx import CallFailed, Context, Operator
from styx.testing import Host, LogLine

node = Operator("node")
other = Operator("other")


class Kind(enum.Enum):
    LEAF = "leaf"


@dataclass
class Point:
    x: int
    kind: Kind = Kind.LEAF


class Unprintable(Exception):
    def __str__(self):
        raise RuntimeError("no text either")


class Refused(styx.Abort):
    code = "REFUSED"


@node.register
def visit(ctx: Context, children: dict) -> list:
    """Issues a tree of calls: `{"name": {...}}`; a name with `!` is called synchronously."""
    for name, grandchildren in children.items():
        if name.endswith("!"):
            ctx.call(node, name, visit, grandchildren)
        else:
            ctx.call_async("node", name, "visit", grandchildren)
    return [ctx.key, len(children)]


@node.register
def write(ctx: Context, value: int) -> None:
    ctx.state.put(value)


@node.register
def write_and_raise(ctx: Context, kind: str) -> None:
    ctx.state.put("written")
    ctx.call(node, "elsewhere", write, 1)
    ctx.call_async(node, "later", write, 2)
    raise {
        "value": ValueError("no"),
        "empty": LookupError(),
        "key": KeyError("k"),
        "text": ValueError("a\ud800b\x00c\x1b[31m\td\ne"),
        "huge": ValueError("é" * 100_000),
        "unprintable": Unprintable(),
        "exit": SystemExit(3),
        "interrupt": KeyboardInterrupt(),
        "memory": MemoryError(),
        "group": ExceptionGroup("several", [ValueError("a")]),
    }[kind]


@node.register
def is_wrong(ctx: Context, how: str) -> None:
    ctx.state.put("written")
    match how:
        case "key":
            {}["price"]
        case "none":
            None.start
        case "division":
            1 // 0
        case "library":
            json.loads("nonsense")
        case "conversion":
            int("x")
        case "assert":
            assert ctx is None
        case "exit":
            sys.exit(3)
        case "interrupt":
            raise KeyboardInterrupt
        case "again":
            try:
                {}["price"]
            except KeyError:
                raise
        case "arity":
            ctx.call(node, "x", write, 1, 2)
        case "object":
            ctx.state.put(object())
        case "multiline":
            raise NotImplementedError("one\ntwo")


@node.register
def refuse(ctx: Context, how: str) -> None:
    ctx.state.put("written")
    match how:
        case "class":
            raise Refused("no")
        case "instance":
            raise styx.Abort("no", code="CLOSED_2")
        case "none":
            raise styx.Abort("no")
        case "silent":
            raise Refused
        case "nested":
            ctx.call(node, "inner", refuse, "class")
        case "reworded":
            try:
                ctx.call(node, "inner", refuse, "class")
            except CallFailed as failed:
                raise ValueError(f"{failed.code} {failed.app_code}: {failed}") from failed
        case "other":
            try:
                ctx.call(node, "inner", refuse, "class")
            except CallFailed as failed:
                raise styx.Abort(str(failed), code="OTHER") from failed


@node.register
def calls(ctx: Context, operator: str, function: str, values: list) -> None:
    ctx.call(operator, "inner", function, *values)


@node.register
def recurse(ctx: Context) -> None:
    ctx.state.put("written")
    recurse(ctx)


@node.register
def swallow(ctx: Context, way: str) -> str:
    ctx.state.put("written")
    try:
        ctx.call(node, "bad", write_and_raise, "value")
    except CallFailed as failed:
        if way == "reword":
            raise RuntimeError(f"{failed.code}: {failed.message}, sadly") from failed
    return "saved"


@node.register
def reject(ctx: Context) -> None:
    ctx.call("node", "bad", "write", "a string")


@node.register
def fail_later(ctx: Context) -> str:
    ctx.state.put("written")
    ctx.call_async(node, "bad", write_and_raise, "value")
    return "fine so far"


@node.register
def shapes(ctx: Context, a: int, b: int = 2, c: int = 3) -> list:
    return [a, b, c]


@node.register
def point(ctx: Context, at: Point) -> Point:
    assert isinstance(at, Point) and at.kind is Kind.LEAF
    return Point(at.x + 1)


@node.register
def call_point(ctx: Context) -> list:
    typed = ctx.call(node, "p", point, Point(1))
    assert typed == Point(2)
    return [typed, ctx.call(node, "p", "point", {"x": 5}).x, ctx.call("node", "p", "point", {"x": 7})]


@node.register
def call_with(ctx: Context, way: int) -> list:
    calls = [
        lambda: ctx.call(node, "s", shapes, 1),
        lambda: ctx.call(node, "s", shapes, c=9, a=1),
        lambda: ctx.call(node, "s", "shapes", 1, c=9),
        lambda: ctx.call("node", "s", shapes, a=1, b=5),
        lambda: ctx.call(node, "s", shapes, 1, 2, 3, 4),
        lambda: ctx.call(node, "s", shapes),
        lambda: ctx.call(node, "s", shapes, b=1),
        lambda: ctx.call(node, "s", shapes, 1, a=1),
        lambda: ctx.call(node, "s", shapes, 1, d=1),
        lambda: ctx.call("node", "s", "shapes", a=1),
        lambda: ctx.call(other, "s", shapes, 1),
        lambda: ctx.call(node, 7, shapes, 1),
        lambda: ctx.call(node, "s", len, 1),
        lambda: ctx.call(7, "s", "shapes", 1),
        lambda: ctx.call(node, "s", "shopes", 1),
        lambda: ctx.call("nowhere", "s", "shapes", 1),
    ]
    return calls[way]()


@node.register(read_only=True)
def peek(ctx: Context, way: str):
    if way == "write":
        ctx.state.put(1)
    if way == "delete":
        ctx.state.delete()
    if way == "call":
        ctx.call(node, "x", write, 1)
    if way == "call_async":
        ctx.call_async(node, "x", write, 1)
    if way == "nested":
        return ctx.call(node, "own", peek, "")
    return ctx.state.get()


@node.register
def read_your_writes(ctx: Context) -> list:
    before = ctx.state.get()
    ctx.state.put([1])
    copy = ctx.state.get()
    copy.append(2)
    seen = [before, ctx.state.get()]
    ctx.state.delete()
    ctx.state.delete("never there")
    seen.append(ctx.state.get())
    ctx.state.put({"x": 1, "gone": 2}, key="q")
    seen.append(ctx.state.get("q", as_type=Point))
    return seen


@node.register
def fill(ctx: Context) -> None:
    for key in ["a:1", "a:2", "a:3", "b:1", "é", "z"]:
        ctx.state.put(key.upper(), key=key)


@node.register
def scan(ctx: Context, options: dict) -> list:
    ctx.state.put("NEW", key="a:25")
    ctx.state.delete("a:3")
    return [key for key, value in ctx.state.scan(**options)]


@node.register
def log(ctx: Context, fail: bool) -> None:
    ctx.log.info("sold %d of %s", 3, "x")
    ctx.log.warning("100%")
    if fail:
        raise ValueError("no")


@node.register
def about(ctx: Context) -> list:
    return [ctx.app, ctx.operator, ctx.function, ctx.key, ctx.tid, ctx.request_id]


@pytest.fixture
def host():
    return Host(sys.modules[__name__])


def aborted(host, *call):
    with pytest.raises(CallFailed) as failed:
        host.call(*call)
    return failed.value.code, failed.value.message


@pytest.mark.parametrize(
    "tree, order",
    [
        ({}, "root"),
        ({"a": {}, "b": {}}, "root a b"),
        ({"a": {"a1": {"a11": {}}, "a2": {}}, "b": {"b1": {}}}, "root a a1 a11 a2 b b1"),
        # A synchronous call is complete, with all that it issued, before its caller goes on.
        ({"a": {}, "s!": {"s1": {}, "t!": {"t1": {}}}, "b": {}}, "root s! t! t1 s1 a b"),
    ],
)
def test_order_of_calls(host, tree, order):
    assert host.call(node, "root", visit, tree) == ["root", len(tree)]
    assert " ".join(key for _, key, _ in host.calls) == order


@pytest.mark.parametrize(
    "kind, code, message",
    [
        ("value", "ABORTED", "no"),
        ("empty", "ABORTED", "LookupError"),
        ("key", "ABORTED", "'k'"),
        ("text", "ABORTED", "a?b\ufffdc\ufffd[31m\td\ne"),
        ("unprintable", "ABORTED", "Unprintable"),
        ("memory", "LIMIT_EXCEEDED", "the function ran out of memory: keep less in it or raise the memory limit"),
        ("group", "ABORTED", "several (1 sub-exception)"),
    ],
)
def test_an_exception_aborts_everything(host, kind, code, message):
    assert aborted(host, "node", "n", "write_and_raise", kind) == (code, message)
    assert host.entries("node") == {}
    host.call("node", "n", "write", 5)
    assert host.entries("node") == {"n": 5}


@pytest.mark.parametrize(
    "how, says",
    [
        ("key", "KeyError: 'price'"),
        ("none", "AttributeError: 'NoneType' object has no attribute 'start'"),
        ("division", "ZeroDivisionError: "),
        ("library", "JSONDecodeError: Expecting value: line 1 column 1 (char 0)"),
        ("conversion", "ValueError: invalid literal for int()"),
        ("assert", "AssertionError"),
        ("exit", "SystemExit: 3"),
        ("interrupt", "KeyboardInterrupt"),
        ("again", "KeyError: 'price'"),
        ("arity", "TypeError: node.write takes 1 argument, but 2 were given"),
        ("object", "TypeError: a value of type object has no JSON form"),
        ("multiline", "NotImplementedError: one\ntwo"),
    ],
)
def test_a_bug_says_what_it_is_and_where(host, how, says):
    with pytest.raises(CallFailed) as failed:
        host.call("node", "n", "is_wrong", how)
    message = failed.value.message
    assert failed.value.code == "GUEST_EXCEPTION"
    assert message.startswith(f'node.is_wrong on "n": {says}') and " in is_wrong" in message
    line = int(message.rpartition("test_transactions.py:")[2].split()[0])
    assert line in range(is_wrong.__code__.co_firstlineno, recurse.__code__.co_firstlineno)
    assert host.logs == [LogLine("warn", "node", "n", f"GUEST_EXCEPTION: {message}")]
    assert host.entries("node") == {}
    # The traceback that a test shows leads to the app's line.
    frames = traceback.extract_tb(failed.value.__cause__.__traceback__)
    assert (line, "is_wrong") in [(frame.lineno, frame.name) for frame in frames]
    # And leaves out what lies between them.
    shown = str(failed.getrepr(style="short"))
    assert "in is_wrong" in shown and "/styx/runtime.py" not in shown and "/styx/testing.py" not in shown


@pytest.mark.parametrize(
    "how, app_code, message",
    [
        ("class", "REFUSED", "no"),
        ("instance", "CLOSED_2", "no"),
        ("none", None, "no"),
        ("silent", "REFUSED", "Refused"),
        ("nested", "REFUSED", "no"),
        ("reworded", "REFUSED", "ABORTED REFUSED: no"),
        ("other", "OTHER", "no"),
    ],
)
def test_an_error_of_the_app_has_its_code(host, how, app_code, message):
    with pytest.raises(CallFailed) as failed:
        host.call("node", "n", "refuse", how)
    assert (failed.value.code, failed.value.app_code, failed.value.message) == ("ABORTED", app_code, message)
    assert host.entries("node") == {}


@pytest.mark.parametrize("code", ["lower", "", "1A", "A-B", "A" * 65, 7])
def test_codes_have_a_form(code):
    with pytest.raises(styx.DefinitionError, match="begin with a capital letter"):
        type("Wrong", (styx.Abort,), {"code": code})
    with pytest.raises(TypeError, match="begin with a capital letter"):
        styx.Abort("no", code=code)


@pytest.mark.parametrize(
    "operator, function, values, says",
    [
        ("node", "write", [], "node.write was called with arguments that it does not take: node.write misses the argument"),
        ("node", "wite", [], 'node.calls called nobody: operator "node" has no function "wite"'),
        ("nood", "write", [], 'node.calls called nobody: there is no operator "nood"'),
    ],
)
def test_a_mistake_inside_is_not_the_clients(host, operator, function, values, says):
    code, message = aborted(host, "node", "n", "calls", operator, function, values)
    assert code == "GUEST_EXCEPTION" and message.startswith(says)
    assert len(host.logs) == 1 and host.logs[0].level == "warn" and says in host.logs[0].message


def test_long_messages_are_cut_between_characters(host):
    code, message = aborted(host, "node", "n", "write_and_raise", "huge")
    assert 4090 <= len(message.encode()) <= 4096
    assert message == "é" * (len(message) - 1) + "…"


def test_endless_recursion_aborts(host):
    code, message = aborted(host, "node", "n", "recurse")
    assert code == "GUEST_EXCEPTION"
    assert message.startswith('node.recurse on "n": RecursionError: maximum recursion depth exceeded')
    assert host.entries("node") == {}


def test_a_failed_call_cannot_be_saved_but_reworded(host):
    assert aborted(host, "node", "n", "swallow", "ignore") == ("ABORTED", "no")
    assert aborted(host, "node", "n", "swallow", "reword") == ("ABORTED", "ABORTED: no, sadly")
    assert aborted(host, "node", "n", "reject") == (
        "GUEST_EXCEPTION",
        'node.write was called with arguments that it does not take: node.write: value must be an integer, not "a string"',
    )
    assert aborted(host, "node", "n", "fail_later") == ("ABORTED", "no")
    assert host.entries("node") == {}


@pytest.mark.parametrize(
    "function, args, message",
    [
        ("write", [], "node.write misses the argument 'value'"),
        ("write", [1, 2], "node.write takes 1 argument, but 2 were given"),
        ("about", [1], "node.about takes no arguments, but 1 were given"),
        ("shapes", [1, None], "node.shapes: b must be an integer, not null"),
        ("point", [{"x": "1"}], 'node.point: at.x must be an integer, not "1"'),
    ],
)
def test_bad_arguments(host, function, args, message):
    with pytest.raises(CallFailed) as failed:
        host._invoke(f"node.{function}", "n", __import__("json").dumps(args).encode())
    assert (failed.value.code, failed.value.message) == ("BAD_ARGUMENTS", message)


@pytest.mark.parametrize("data", [b"", b"{}", b'"ab"', b"null", b"[1", b"\xff", b'{"value": 1}', b"[" * 100_000])
def test_arguments_that_are_no_array(host, data):
    with pytest.raises(CallFailed) as failed:
        host._invoke("node.write", "n", data)
    assert failed.value.code == "BAD_ARGUMENTS"


def test_unknown_functions(host):
    assert aborted(host, "node", "n", "nope") == ("UNKNOWN_FUNCTION", 'operator "node" has no function "nope"')
    assert aborted(host, "nope", "n", "visit")[0] == "UNKNOWN_OPERATOR"
    with pytest.raises(CallFailed, match="there is no function node.nope in this component"):
        host._invoke("node.nope", "n", b"[]")


@pytest.mark.parametrize(
    "way, expected",
    [
        (0, [1, 2, 3]),
        (1, [1, 2, 9]),
        (2, [1, 2, 9]),
        (3, [1, 5, 3]),
        (4, "node.shapes takes 3 arguments, but 4 were given"),
        (5, "node.shapes misses the argument 'a'"),
        (6, "node.shapes misses the argument 'a'"),
        (7, "node.shapes got the argument 'a' twice"),
        (8, "node.shapes has no parameter 'd'"),
        (9, "node.shapes is called by name: its arguments must be positional"),
        (10, "shapes is not registered with other: pass a function of it or a name"),
        (11, "a key must be a string, not int: use str(...)"),
        (12, "len is not registered with node: pass a function of it or a name"),
        (13, "the operator must be an Operator, a class of entities or a name, not int"),
        (14, 'operator "node" has no function "shopes"'),
        (15, 'there is no operator "nowhere": give it to Host(...)'),
    ],
)
def test_ways_to_call(host, way, expected):
    if isinstance(expected, list):
        assert host.call("node", "n", "call_with", way) == expected
    else:
        assert expected in aborted(host, "node", "n", "call_with", way)[1]


def test_dataclasses_and_enums_cross_calls(host):
    assert host.call("node", "n", "call_point") == [{"x": 2, "kind": "leaf"}, 6, {"x": 8, "kind": "leaf"}]


def test_read_only(host):
    host.put("node", "own", 7)
    assert host.call("node", "own", "peek", "") == 7
    assert host.call("node", "n", "peek", "nested") == 7
    for way in ("write", "delete"):
        assert aborted(host, "node", "own", "peek", way) == (
            "READ_ONLY",
            'node.peek is declared read-only and wrote "own"',
        )
    for way in ("call", "call_async"):
        message = "node.peek is declared read-only and called node.write, which is not"
        assert aborted(host, "node", "own", "peek", way) == ("READ_ONLY", message)


def test_state(host):
    assert host.call("node", "n", "read_your_writes") == [None, [1], None, {"x": 1, "kind": "leaf"}]
    assert host.entries("node") == {"q": {"x": 1, "gone": 2}}


@pytest.mark.parametrize(
    "options, keys",
    [
        ({}, "a:1 a:2 a:25 b:1 z é"),
        ({"prefix": "a:"}, "a:1 a:2 a:25"),
        ({"prefix": "a:", "reverse": True}, "a:25 a:2 a:1"),
        ({"after": "a:2"}, "a:25 b:1 z é"),
        ({"after": "a:2", "start": "b"}, "b:1 z é"),
        ({"after": "a:25", "reverse": True}, "a:2 a:1"),
        ({"after": "b:1", "reverse": True, "end": "a:2"}, "a:1"),
        ({"start": "a:2", "end": "z"}, "a:2 a:25 b:1"),
        ({"limit": 2}, "a:1 a:2"),
        ({"limit": 2, "reverse": True}, "é z"),
        ({"limit": 0}, ""),
        ({"prefix": "none"}, ""),
    ],
    ids=str,
)
def test_scan(host, options, keys):
    host.call("node", "n", "fill")
    assert host.call("node", "n", "scan", options) == keys.split()


def test_a_negative_limit_is_refused(host):
    code, message = aborted(host, "node", "n", "scan", {"limit": -1})
    assert code == "GUEST_EXCEPTION"
    assert 'node.scan on "n": ValueError: scan: limit must not be negative, it is -1 at ' in message


def test_lines_are_kept_also_of_those_that_abort(host):
    lines = [LogLine("info", "node", "n", "sold 3 of x"), LogLine("warn", "node", "n", "100%")]
    host.call("node", "n", "log", False)
    assert host.logs == lines
    aborted(host, "node", "n", "log", True)
    assert host.logs[2:-1] == lines
    assert host.logs[-1].level == "debug" and "node.log aborted by ValueError at" in host.logs[-1].message


def test_what_a_context_knows(host):
    assert host.call("node", "n", "about") == ["test", "node", "about", "n", 1, "test-1"]
