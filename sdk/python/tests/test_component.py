"""Components as `styx.build` makes them, inside WebAssembly.

Needs the extra `component-test` (componentize-py and wasmtime) and takes about
a minute; without it these tests are skipped.
"""

import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

pytest.importorskip("componentize_py", reason="pip install componentize-py==0.25.1")
pytest.importorskip("wasmtime", reason="pip install wasmtime")

from component_host import ComponentHost, Failed  # noqa: E402
from conftest import GUESTS  # noqa: E402

ROOT = Path(__file__).resolve().parents[3]
SOURCES = Path(__file__).resolve().parents[1] / "src"


@functools.cache
def another_python():
    """A directory with the `python3` of whoever has the SDK's wheel: nothing of its packages may come into a component."""
    directory = tempfile.TemporaryDirectory()
    packages = Path(directory.name) / "site-packages"
    shutil.copytree(SOURCES / "styx", packages / "styx")
    python = Path(directory.name) / "python3"
    python.write_text(f"#!/bin/sh\necho '{packages}'\n")
    python.chmod(0o755)
    return directory


def run_build(entry, project, output, *options):
    command = [
        sys.executable,
        "-m",
        "styx.build",
        entry,
        "--wit",
        ROOT / "wit/0.1",
        "--path",
        project,
        "-o",
        output,
        *options,
    ]
    return subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        env={
            **os.environ,
            "PATH": another_python().name + os.pathsep + os.environ["PATH"],
            "PYTHONPATH": str(SOURCES),
        },
        timeout=300,
    )


def build(entry, project, output):
    done = run_build(entry, project, output)
    assert (done.returncode, done.stderr) == (0, "")
    return ComponentHost(output)


@pytest.fixture(scope="module")
def torture(tmp_path_factory):
    return build("torture", Path(__file__).parent / "torture", tmp_path_factory.mktemp("torture") / "torture.wasm")


def call(host, function, *args, key="k", seed=1):
    return json.loads(host.invoke(f"evil.{function}", key, json.dumps(args).encode(), seed))


def failure(host, function, *args, key="k"):
    with pytest.raises(Failed) as failed:
        call(host, function, *args, key=key)
    return failed.value.args


def test_travel_is_a_component(tmp_path):
    host = build("travel", GUESTS / "travel", tmp_path / "travel.wasm")
    imports, exports = host.names()
    assert exports == {"describe", "invoke", "exports"}  # the last is what componentize-py starts the interpreter by
    assert {name for name in imports if name.startswith("styx:")} == {
        f"styx:guest/{interface}@0.1.0" for interface in ("types", "state", "calls", "context", "logging")
    }
    assert all(name.startswith(("styx:guest/", "wasi:")) for name in imports)
    description = host.describe()
    assert description.sdk == "styx-python 0.2.0"
    assert [operator.name for operator in description.operators] == ["reservation", "hotel", "flight"]
    make = description.operators[0].functions[0]
    assert (make.name, getattr(make, "read-only")) == ("make_reservation", False)
    assert [(p.name, p.schema, p.required) for p in make.parameters][0] == ("flight_id", '{"type":"string"}', True)
    assert getattr(description.operators[0].functions[1], "read-only") is True
    assert host.invoke("hotel.create", "ritz", b"[1]") == b"1"
    assert host.invoke("hotel.reserve_hotel", "ritz", b"[]") == b"0"
    with pytest.raises(Failed) as failed:
        host.invoke("hotel.reserve_hotel", "ritz", b"[]")
    assert failed.value.args == ("ABORTED", "hotel ritz is full")
    host.invoke("reservation.make_reservation", "r", b'["KL1","ritz","ann"]')
    assert host.issued == [("hotel", "ritz", "reserve_hotel", b"[]"), ("flight", "KL1", "reserve_flight", b"[]")]


@pytest.mark.parametrize(
    "kind, code, message",
    [
        ("value", "ABORTED", "plain"),
        ("empty", "ABORTED", "KeyError"),
        ("surrogate", "ABORTED", "a?b\ufffdc"),
        ("nasty", "ABORTED", "Nasty"),
        ("exit", "GUEST_EXCEPTION", "SystemExit: 3 at torture.py:"),
        ("interrupt", "GUEST_EXCEPTION", "KeyboardInterrupt at torture.py:"),
        ("recursion", "GUEST_EXCEPTION", "RecursionError: maximum recursion depth exceeded"),
        ("nan", "GUEST_EXCEPTION", "ValueError: Out of range float values are not JSON compliant: nan"),
        ("set", "GUEST_EXCEPTION", "TypeError: a value of type complex has no JSON form"),
        ("object", "GUEST_EXCEPTION", "TypeError: a value of type object has no JSON form"),
        ("circular", "GUEST_EXCEPTION", "ValueError: Circular reference detected"),
        ("key", "GUEST_EXCEPTION", "TypeError: a key must be a string, not int: use str(...)"),
        ("group", "ABORTED", "several (2 sub-exceptions)"),
        ("memory", "LIMIT_EXCEEDED", "the function ran out of memory: keep less in it or raise the memory limit"),
    ],
)
def test_nothing_traps(torture, kind, code, message):
    told = failure(torture, "raises", kind)
    if code == "GUEST_EXCEPTION":
        assert told[0] == code and told[1].startswith(message) and "torture.py:" in told[1]
    else:
        assert told == (code, message)
    assert call(torture, "bump", key="after") == {"n": 1, "name": "counter"}
    torture.state.clear()
    if kind == "memory":
        torture.renew()


def test_messages_are_cut(torture):
    assert len(failure(torture, "raises", "huge")[1].encode()) in range(4090, 4097)


def test_surrogates_do_not_become_values(torture):
    assert "surrogates not allowed" in failure(torture, "raises", "surrogate_value")[1]
    assert failure(torture, "takes", {"x": "\ud800"}) == (
        "BAD_ARGUMENTS",
        'evil.takes: point.x must be an integer, not "?"',
    )


def test_conversion(torture):
    assert call(torture, "takes", {"x": 1}) == {"x": 1, "y": 0.5, "color": "red"}
    assert call(torture, "takes", {"x": 1, "y": 2}, [{"x": 3}], "red") == {"x": 2, "y": 2.0, "color": "red"}
    message = 'evil.takes: color must be one of "red", not "blue"'
    assert failure(torture, "takes", {"x": 1}, [], "blue") == ("BAD_ARGUMENTS", message)


def test_chance_depends_on_the_invocation_only(torture):
    first, other = call(torture, "chance", seed=1), call(torture, "chance", seed=2)
    assert first != other
    assert first[6] == other[6]  # a generator seeded while importing starts every invocation anew
    assert call(torture, "chance", seed=1) == first
    torture.renew()
    assert [call(torture, "chance", seed=seed) for seed in (2, 1)] == [other, first]


def test_the_system_answers(torture):
    now, text, *_, urandom, token, uuid4 = call(torture, "system")
    assert now > 1_700_000_000 and text.startswith("20")
    assert (urandom, token, uuid4) == (9, 8, 36)


def test_print_and_logging_reach_the_host(torture):
    torture.logs.clear()
    call(torture, "prints")
    *lines, caught, last = torture.logs
    assert lines == [
        ("info", "one 2"),
        ("error", "to stderr"),
        ("info", "info 3"),
        ("warn", "warned"),
        ("info", "ctx info"),
        ("error", "ctx error?"),
    ]
    assert (
        caught[0] == "error"
        and caught[1].startswith("caught\nTraceback")
        and caught[1].endswith("ZeroDivisionError: division by zero")
    )
    assert last == ("info", "no line end")


def test_calls(torture):
    assert failure(torture, "catches") == ("ABORTED", "added to ABORTED plain")
    assert failure(torture, "passes_on", "value") == ("ABORTED", "plain")
    assert failure(torture, "passes_on", "bad") == (
        "BAD_ARGUMENTS",
        'evil.takes: point must be an object (Point), not "nonsense"',
    )


def test_aborts_tell_the_developer_where(torture):
    torture.logs.clear()
    failure(torture, "raises", "value")
    ((level, line),) = torture.logs
    assert level == "debug" and line.startswith("evil.raises aborted by ValueError at torture.py:")


def test_scan_and_context(torture):
    torture.state.clear()
    assert call(torture, "scans") == [[["k:1", 1], ["k:2", 2]], ["k:4", "k:5"], ["k:2", "k:1"]]
    assert call(torture, "about", key="ann") == ["lab", "evil", "ann", 7, "rq_1", 1_700_000_000_123_456]


VALUES = [
    None,
    True,
    False,
    *(sign * (10**digits + more) for digits in range(0, 30) for more in (-1, 0, 1) for sign in (1, -1)),
    *(2**63 + more for more in (-1, 0)),
    *(-(2**63) + more for more in (-1, 0)),
    0.5,
    -0.0,
    1e300,
    1.0,
    "",
    "a",
    "é€😀",
    'quote " backslash \\ controls \x00\n\x1f\x7f',
    *("x" * count for count in (252, 253, 254, 255, 256, 257, 5000)),
    *("é" * count for count in (126, 127, 128)),
    [],
    {},
    [1, "a", None, [True, [2.5, {"b": []}]]],
    {"é": {"a": [1]}, "": 0},
    list(range(200)),
    ["x" * 100] * 3,
    json.loads("[" * 15 + "1" + "]" * 15),
    json.loads("[" * 40 + "1" + "]" * 40),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: repr(value)[:20])
def test_values_are_the_same_in_c(torture, value):
    compact = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    told, *called = call(torture, "keeps", value)
    assert torture.state["evil", "k"].decode() == torture.state["evil", "other"].decode() == compact
    assert told == repr(value)
    assert called == [repr(value), repr([value, "two", 3])]
    torture.state.clear()


@pytest.mark.parametrize(
    "text",
    [" 1", "1 ", "[1, 2]", "\t[ 1 ,2]\n", '"\\u00e9\\ud83d\\ude00"', "1e2", "12E-1", '{"a": 1, "a": 2}', "[[]]", '"é" ', "-5", "1.50"],
)
def test_json_is_read_as_json_in_c(torture, text):
    torture.state["evil", "k"] = text.encode()
    assert call(torture, "kept") == repr(json.loads(text))
    assert json.loads(torture.invoke("evil.shown", "k", f"[{text}]".encode())) == repr(json.loads(text))


@pytest.mark.parametrize("text", ["-0", "[-0]", "[1, -0]"])
def test_minus_zero_is_no_integer_in_c(torture, text):
    """`json.loads` makes it 0, which is another number."""
    torture.state["evil", "k"] = text.encode()
    assert call(torture, "kept") == text.replace("-0", "-0.0")
    assert json.loads(torture.invoke("evil.shown", "k", f"[{text}]".encode())) == text.replace("-0", "-0.0")


@pytest.mark.parametrize("text", ["", "01", "-", "1,", "[1,]", "[1", '"a', '"\x01"', "nul", "nulll", "truee", "NaN", "1 2", "[01]", "--1", "{", b"\xff", b'"\xff"'])
def test_what_is_no_json_is_refused_in_c(torture, text):
    text = text if isinstance(text, bytes) else text.encode()
    torture.state["evil", "k"] = text
    told = failure(torture, "kept")
    assert told[0] == "GUEST_EXCEPTION" and "Error: " in told[1] and " at torture.py:" in told[1]
    torture.state.clear()
    with pytest.raises(Failed) as failed:
        torture.invoke("evil.shown", "k", b"[" + text + b"!]")
    assert failed.value.args[0] == "BAD_ARGUMENTS"
    assert "evil.shown: the arguments are not a JSON array" in failed.value.args[1]


def test_methods_in_c_take_what_those_in_python_take(torture):
    assert call(torture, "by_keyword") == [1, 2, None, [3], "int", "red"]
    told = failure(torture, "wrong_key")
    assert told[0] == "GUEST_EXCEPTION" and told[1].startswith("TypeError: a key must be a string")
    told = failure(torture, "few_arguments")
    assert told[0] == "GUEST_EXCEPTION" and told[1].startswith("TypeError: evil.shown misses the argument 'value' at ")
    assert call(torture, "after_a_call_by_name") == "5"


@pytest.mark.parametrize(
    "files, error",
    [
        ({"app.py": "import helper\n", "helper.py": "x = 1\ndef f(:\n"}, "helper.py:2: SyntaxError: invalid syntax"),
        (
            {"app.py": "from styx import Operator\na = Operator('a')\n@a.register\ndef f(ctx, b: Itm): pass\n"},
            "app.py:3: a.f: parameter 'b': the type hint 'Itm' is not a type that is known here",
        ),
        (
            {"app.py": "from styx import Entity\n\nclass A(Entity):\n    x: complex\n"},
            "app.py:3: a: field 'x': complex has no JSON form",
        ),
        ({"other.py": "x = 1\n"}, "app: there is no module named 'app'"),
    ],
    ids=["syntax", "hint", "field", "entry"],
)
def test_errors_of_a_build_are_one_line(tmp_path, files, error):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    done = run_build("app", tmp_path, tmp_path / "out" / "app.wasm")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    prefix = f"error: {tmp_path}/" if ".py:" in error else "error: "
    assert done.stderr.startswith(prefix + error)
    assert not (tmp_path / "out").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(files)


def test_classes_are_operators(torture):
    def shelf(function, key, *args):
        return json.loads(torture.invoke(f"shelf.{function}", key, json.dumps(args).encode()))

    torture.state.clear()
    assert shelf("create", "a", 3) == "a"
    assert shelf("take", "a", 1) == 2
    assert shelf("take", "a", 0) == 2
    with pytest.raises(Failed) as failed:
        shelf("take", "a", 3)
    assert failed.value.args == ("ABORTED", "a is full")
    with pytest.raises(Failed) as failed:
        shelf("take", "none", 3)
    assert failed.value.args == ("ABORTED:NOT_FOUND", "there is no shelf 'none'")
    with pytest.raises(Failed) as failed:
        shelf("take", "a", "x")
    assert failed.value.args == ("BAD_ARGUMENTS", 'shelf.take: count must be an integer, not "x"')
    shelf("create", "b", 1)
    assert shelf("take_along", "a", "b", 1) == "b"
    assert torture.state == {
        ("shelf", "a"): b'{"places":1,"next":"b"}',
        ("shelf", "b"): b'{"places":0,"next":null}',
    }
