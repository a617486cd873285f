"""`python -m styx.build`: a Python project becomes a component.

    python -m styx.build ENTRY --wit DIR [--path DIR] [--deps DIR] -o OUT.wasm
    python -m styx.build --interpreter --wit DIR -o NEW_DIRECTORY

Runs the pinned componentize-py on `styx._component`, next to a generated module
that imports ENTRY. With `--interpreter` it makes `interpreter.wasm`, which takes an app
in later (`styx._interpreter`), and `library`, the standard library's sources, of which it
loads what the app asks for. An error is one line, `file:line: what is wrong`, and exit
status 1.
"""

import argparse
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from styx._report import MARK

#: The only version whose components were tried against the host.
COMPONENTIZE_PY = "0.25.1"
_WORLD = "function"
#: Files of the SDK that no component has.
NOT_INSIDE = ("build.py", "testing.py")
_MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*\Z")


class BuildError(Exception):
    """One line for the developer."""


def build(entry: str, *, wit: Path, project: Path, deps: Path | None, output: Path) -> None:
    """Builds the component of `project` whose module `entry` registers functions. Raises `BuildError`."""
    if not _MODULE.match(entry):
        raise BuildError(f"{entry!r} is not a module name: write it as in an import, without .py")
    for what, folder in (("--wit", wit), ("--path", project), ("--deps", deps)):
        if folder is not None and not folder.exists():
            raise BuildError(f"{what}: {folder} does not exist")
    tool = _componentize_py()
    with tempfile.TemporaryDirectory(prefix="styx-build-") as folder:
        generated, sdk = _generated(Path(folder))
        (generated / "_styx_entry.py").write_text(
            f'"""Generated: imports the app."""\n\nimport {entry}  # noqa: F401\n'
        )
        # The project comes before its dependencies, as in a plain Python process.
        paths = [generated, sdk, project.resolve(), *([deps.resolve()] if deps else [])]
        _check(entry, sdk, project.resolve(), deps.resolve() if deps else None, paths)
        partial = Path(folder) / "out.wasm"
        said = _componentize(tool, "styx._component", _world(wit, Path(folder)), paths, partial)
        if said is not None:
            raise BuildError(_explain(said, paths, entry, deps))
        output.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(partial, output)


def interpreter(*, wit: Path, output: Path) -> None:
    """Makes an interpreter that takes an app in later, in a new directory. Raises `BuildError`."""
    tool = _componentize_py()
    with tempfile.TemporaryDirectory(prefix="styx-build-") as folder:
        generated, sdk = _generated(Path(folder))
        project, deps = (Path(folder) / name for name in ("project", "deps"))
        project.mkdir()
        deps.mkdir()
        (generated / "library").mkdir()
        # The same places as those of an app.
        paths = [generated, sdk, project, deps]
        partial = Path(folder) / "out.wasm"
        said = _componentize(tool, "styx._interpreter", _world(wit, Path(folder)), paths, partial)
        if said is not None:
            raise BuildError(_explain(said, paths, "the interpreter"))
        output.mkdir(parents=True, exist_ok=True)
        shutil.move(partial, output / "interpreter.wasm")
        shutil.move(generated / "library", output / "library")


def _generated(folder: Path) -> tuple[Path, Path]:
    """Directories for what is generated, and with the SDK. None is in another: libraries would be found twice."""
    generated, sdk = folder / "generated", folder / "sdk"
    generated.mkdir()
    _copy_sdk(sdk)
    return generated, sdk


def _world(wit: Path, folder: Path) -> Path:
    """The contract for componentize-py: all of it but the export that the SDK has in C."""
    text = (wit / "guest.wit").read_text()
    directory = folder / "wit"
    directory.mkdir()
    (directory / "guest.wit").write_text(re.sub(r"^ *export invoke:.*;\n", "", text, flags=re.MULTILINE))
    return directory


def _componentize(tool: list[str], module: str, wit: Path, paths: list[Path], output: Path) -> str | None:
    """Runs componentize-py. What it said, if it failed."""
    command = [*tool, "--quiet", "--wit-path", str(wit), "--world", _WORLD, "componentize", module]
    for path in paths:
        command += ["--python-path", str(path)]
    command += ["--output", str(output)]
    # Another virtual environment's packages must not slip in; the working directory must not either.
    environment = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH")}
    # Nor may those of the Python or the pipenv that it would find: they have the SDK as well, where its wheel is installed.
    environment["PATH"] = str(output.parent)
    done = subprocess.run(
        command, capture_output=True, text=True, errors="replace", cwd=output.parent, env=environment
    )
    return None if done.returncode == 0 and output.exists() else done.stdout + done.stderr


def _check(entry: str, sdk: Path, project: Path, deps: Path | None, paths: list[Path]) -> None:
    """Finds in a moment what would be found when most of the time is gone."""
    path = os.pathsep.join(str(folder) for folder in (sdk, project, deps) if folder is not None)
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "styx._check", entry]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", cwd=sdk, env=environment, timeout=60
        )
    except subprocess.TimeoutExpired:
        return
    if MARK in done.stderr:
        raise BuildError(_explain(done.stderr, paths, entry, deps))


def _copy_sdk(target: Path) -> None:
    """Only the SDK itself: what else lies in this process's site-packages stays out of the component."""
    shutil.copytree(
        Path(__file__).parent, target / "styx", ignore=shutil.ignore_patterns("__pycache__", *NOT_INSIDE)
    )


def _componentize_py() -> list[str]:
    try:
        version = importlib.metadata.version("componentize-py")
    except importlib.metadata.PackageNotFoundError:
        raise BuildError(
            f"componentize-py is not installed for {sys.executable}: run pip install componentize-py=={COMPONENTIZE_PY}"
        ) from None
    if version != COMPONENTIZE_PY:
        raise BuildError(
            f"componentize-py is {version}, but {COMPONENTIZE_PY} is needed: run pip install componentize-py=={COMPONENTIZE_PY}"
        )
    return [sys.executable, "-c", "import sys; from componentize_py import script; sys.exit(script())"]


def _explain(text: str, paths: list[Path], entry: str, deps: Path | None = None) -> str:
    """The one line that matters in what componentize-py wrote."""
    for line in text.splitlines():
        start = line.find(MARK)
        if start >= 0:
            report = json.loads(line[start + len(MARK) :])
            return "\n".join(_line_of(each, paths, entry, deps) for each in (report, *report.get("others", ())))
    # Errors from before the interpreter ran: a bad WIT directory, say.
    cause = text.rpartition("Caused by:")[2] if "Caused by:" in text else text.rpartition("AssertionError:")[2] or text
    lines = [line.strip() for line in cause.partition("Stack backtrace:")[0].splitlines() if line.strip()]
    return "componentize-py: " + (lines[0] if lines else "it failed without a message")


def _line_of(report: dict[str, Any], paths: list[Path], entry: str, deps: Path | None) -> str:
    message, file = report["message"], report["file"]
    if "import" in report:
        own = _own_native(report["import"]["name"], paths)
        native = _native(report["import"], paths, deps.resolve()) if deps is not None else None
        if own is not None:
            message = f"{own} is native code, which a component cannot load: write the module in Python"
        elif deps is not None and native is not None:
            package = native.relative_to(deps.resolve()).parts[0].partition(".")[0]
            message = (
                f"the package {package!r} has native code ({native.name}), which a component cannot load: "
                "take one in pure Python"
            )
    return f"{entry}: {message}" if file is None else f"{_host_path(file, paths)}:{report['line']}: {message}"


def _own_native(name: str | None, paths: list[Path]) -> str | None:
    """The project's file of native code that an import which failed has asked for."""
    if not name or len(paths) < 3:
        return None
    project = paths[2]
    *packages, module = name.split(".")
    found = sorted(project.joinpath(*packages).glob(f"{module}.*so"))
    return str(found[0].relative_to(project)) if found else None


def _native(asked: dict[str, Any], paths: list[Path], deps: Path) -> Path | None:
    """A file of native code that an import which failed has asked for, or else has the package that asked."""
    if asked["name"]:
        *packages, module = asked["name"].split(".")
        found = sorted(deps.joinpath(*packages).glob(f"{module}*.so"))
        if found:
            return found[0]
    by = Path(_host_path(asked["by"] or "", paths))
    by = by if by.is_absolute() else Path.cwd() / by
    if not by.is_relative_to(deps):
        return None
    package = by.relative_to(deps).parts[0]
    if asked["name"] and asked["name"].partition(".")[0] != package:
        return None
    return next(iter(sorted((deps / package).rglob("*.so"))), None)


def _host_path(file: str, paths: list[Path]) -> str:
    """Path on this machine of a path in the builder, which mounts the n-th search path as /n."""
    match = re.match(r"/(\d+)/(.*)", file)
    is_mounted = match is not None and int(match[1]) < len(paths)
    path = paths[int(match[1])] / match[2] if is_mounted else Path(file)
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def main(arguments: list[str] | None = None) -> int:
    """The command line. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m styx.build", description="Builds a component of a Python project.")
    parser.add_argument("entry", nargs="?", help="module that registers the functions, as in an import")
    parser.add_argument("--wit", type=Path, required=True, help="directory of the guest contract (guest.wit)")
    parser.add_argument("--path", type=Path, default=Path("."), help="directory of the project (default: this one)")
    parser.add_argument("--deps", type=Path, help="directory of installed packages (pip install --target)")
    parser.add_argument("--interpreter", action="store_true", help="make an interpreter that takes an app in later")
    parser.add_argument("-o", "--output", type=Path, required=True, help="file to write, or directory")
    options = parser.parse_args(arguments)
    if options.interpreter == (options.entry is not None):
        parser.error("give either an entry or --interpreter")
    try:
        if options.interpreter:
            interpreter(wit=options.wit.resolve(), output=options.output.resolve())
            return 0
        build(
            options.entry,
            wit=options.wit.resolve(),
            project=options.path,
            deps=options.deps,
            output=options.output.resolve(),
        )
    except BuildError as error:
        for line in str(error).splitlines():
            print(f"error: {line}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
