"""Errors of a build, without building: what is reported inside, and what becomes of it outside."""

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from styx import DefinitionError
from styx._report import MARK, line_of, nothing_registered
from styx.build import BuildError, _explain, build, main

HEADER = "from styx import Operator\na = Operator('a')\n"


def reported(file):
    """What `_component` would print about a module that does not import or is declared wrongly."""
    from styx.operator import declared
    from styx.runtime import functions_of

    before = len(declared)
    try:
        runpy.run_path(str(file))
        functions_of(declared[before:])
    except BaseException as error:
        line = line_of(error)
    finally:
        del declared[before:]
    assert "\n" not in line
    report = json.loads(line.removeprefix(MARK))
    return report["file"], report["line"], report["message"]


@pytest.mark.parametrize(
    "source, line, message",
    [
        ("x = 1\ndef f(:\n", 2, "SyntaxError: invalid syntax"),
        (
            "\nimport nowhere\n",
            2,
            "there is no module named 'nowhere': add the package to requirements.txt or the file to the project",
        ),
        (
            HEADER + "@a.register\ndef f(ctx, b: complex): pass\n",
            3,
            "a.f: parameter 'b': complex has no JSON form: use int, float",
        ),
        (HEADER + "\na.register(print)\n", 4, "a.print: only plain functions can be registered"),
        (
            "from styx import Operator\n\nOperator('a b')\n",
            3,
            "operator name 'a b' is not allowed: start with a letter",
        ),
        ("def f():\n    return 1 / 0\nf()\n", 2, "ZeroDivisionError: division by zero"),
        ("import json\njson.loads('{')\n", 2, "JSONDecodeError: Expecting property name"),
        ("raise SystemExit\n", 1, "SystemExit"),
        ("raise ValueError('two\\nlines')\n", 1, "ValueError: two; lines"),
    ],
)
def test_reports(tmp_path, source, line, message):
    file = tmp_path / "app.py"
    file.write_text(source)
    found_file, found_line, found_message = reported(file)
    assert found_message.startswith(message)
    assert (found_file, found_line) == (str(file), line)


def test_explanations():
    paths = [Path("/tmp/generated"), Path("/sdk"), Path("/home/ann/shop"), Path("/deps")]
    report = MARK + json.dumps({"message": "it is wrong", "file": "/2/shop/items.py", "line": 7})
    text = f"AssertionError: {report}\nTraceback (most recent call last):\n  ...\n\nCaused by:\n    ValueError: x\n"
    assert _explain(text, paths, "shop") == "/home/ann/shop/shop/items.py:7: it is wrong"
    inside = report.replace("/2/shop", "/python/lib")
    assert _explain(inside, paths, "shop") == "/python/lib/items.py:7: it is wrong"
    assert _explain(line_of(nothing_registered()), paths, "shop").startswith("shop: no function is registered")
    bare = (
        "Traceback\nAssertionError: failed to parse WIT\n\nCaused by:\n    no such world\n\nStack backtrace:\n   0: x\n"
    )
    assert _explain(bare, paths, "shop") == "componentize-py: no such world"
    assert _explain("", paths, "shop") == "componentize-py: it failed without a message"


def test_native_code_is_named(tmp_path):
    deps = tmp_path / "deps"
    (deps / "core").mkdir(parents=True)
    (deps / "pure").mkdir()
    (deps / "fast.cpython-311-x86_64-linux-gnu.so").touch()
    (deps / "core" / "_core.cpython-311-x86_64-linux-gnu.so").touch()
    paths = [tmp_path / "generated", tmp_path / "sdk", tmp_path / "shop", deps]

    def explained(message, name, by):
        report = {"message": message, "file": "/2/shop.py", "line": 2, "import": {"name": name, "by": by}}
        return _explain(MARK + json.dumps(report), paths, "shop", deps)

    def native(package, file):
        return (
            f"{tmp_path}/shop/shop.py:2: the package {package!r} has native code ({file}), which a component cannot "
            "load: take one in pure Python"
        )

    core = native("core", "_core.cpython-311-x86_64-linux-gnu.so")
    missing = "there is no module named"
    assert explained(missing, "fast", "/2/shop.py") == native("fast", "fast.cpython-311-x86_64-linux-gnu.so")
    assert explained("ImportError", "core._core", "/3/core/__init__.py") == core
    assert explained("ImportError", None, "/3/core/__init__.py") == core, "it says it in its own words"
    (tmp_path / "shop" / "inner").mkdir(parents=True)
    (tmp_path / "shop" / "inner" / "quick.so").touch()
    own = f"{tmp_path}/shop/shop.py:2: inner/quick.so is native code, which a component cannot load: write the module in Python"
    assert explained(missing, "inner.quick", "/2/shop.py") == own
    assert explained(missing, "inner.quic", "/2/shop.py") == f"{tmp_path}/shop/shop.py:2: {missing}"

    for name, by in [("other", "/2/shop.py"), ("other", "/3/core/__init__.py"), (None, "/3/pure/__init__.py")]:
        assert explained(missing, name, by) == f"{tmp_path}/shop/shop.py:2: {missing}", "something else is missing"


def test_what_is_imported_is_reported(tmp_path):
    (tmp_path / "app.py").write_text("import nowhere.at_all\n")
    with pytest.raises(ModuleNotFoundError) as failed:
        runpy.run_path(str(tmp_path / "app.py"))
    report = json.loads(line_of(failed.value).removeprefix(MARK))
    assert report["import"] == {"name": "nowhere", "by": str(tmp_path / "app.py")}


def test_all_hints_are_told_at_once_and_before_anything_is_packed(tmp_path, monkeypatch):
    (tmp_path / "app.py").write_text(
        HEADER + "@a.register\ndef f(ctx, b: complex): pass\n\n@a.register\ndef g(ctx) -> range: pass\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("styx.build._componentize_py", lambda: pytest.fail)
    with pytest.raises(BuildError) as failed:
        build("app", wit=tmp_path, project=tmp_path, deps=None, output=tmp_path / "x.wasm")
    first, second = str(failed.value).splitlines()
    assert first.startswith("app.py:3: a.f: parameter 'b': complex has no JSON form")
    assert second.startswith("app.py:6: a.g: the result: range has no JSON form")


def test_a_location_is_kept():
    report = json.loads(line_of(DefinitionError("wrong", ("/2/a.py", 3))).removeprefix(MARK))
    assert report == {"message": "wrong", "file": "/2/a.py", "line": 3}


@pytest.mark.parametrize("entry", ["", "a-b", "a.py/", "1a", "a; import os"])
def test_an_entry_is_a_module_name(tmp_path, entry):
    with pytest.raises(BuildError, match="is not a module name"):
        build(entry, wit=tmp_path, project=tmp_path, deps=None, output=tmp_path / "x.wasm")


def test_the_command_line_says_one_line(tmp_path, capsys):
    assert main(["app", "--wit", str(tmp_path / "no"), "-o", str(tmp_path / "x.wasm")]) == 1
    assert capsys.readouterr().err == f"error: --wit: {tmp_path}/no does not exist\n"


#: Whether annotations are looked up when somebody asks for them, as inside a component.
LOOKS_UP_LATE = sys.version_info >= (3, 14)


@pytest.mark.parametrize(
    "source, says",
    [
        (HEADER + "print(nosuch)\n", "NameError: name 'nosuch' is not defined" if LOOKS_UP_LATE else None),
        (HEADER + "@a.register\ndef f(ctx) -> None: pass\nclass C:\n    def g(self) -> D: pass\nclass D: pass\n", None),
        ("import nowhere\n", "there is no module named 'nowhere'"),
        ("from styx import Operater\n", "ImportError: cannot import name 'Operater' from 'styx'"),
        ("import styx\na = styx.Operater('a')\n", "AttributeError: module 'styx' has no attribute 'Operater'"),
        ("", "no function is registered"),
        # A component may have what this interpreter has not, and the other way round.
        ("import wit_world\n", None),
        ("raise ErrorOfTomorrowError\n", None),
        ("import json.nothing\n", None),
        ("1 / 0\n", None),
        ("try:\n    import nowhere\nexcept ImportError:\n    pass\n" + HEADER + "@a.register\ndef f(ctx): pass\n", None),
    ],
)
def test_what_is_wrong_anywhere_is_found_before_anything_is_packed(tmp_path, source, says):
    (tmp_path / "app.py").write_text(source)
    sdk = Path(__file__).parent.parent / "src"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(sdk), str(tmp_path)])}
    command = [sys.executable, "-m", "styx._check", "app"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path)
    assert done.returncode == (says is not None)
    assert (MARK in done.stderr) == (says is not None) and (says or "") in done.stderr
