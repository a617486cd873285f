"""Functions that write and then misbehave, each in one way of Python's."""

import json
import os
import sys
import time

from styx import Context, Operator

odd = Operator("odd")
kept = []


@odd.register
def put(ctx: Context, value: int) -> int:
    ctx.state.put(value)
    return value


class Odd(Exception):
    def __str__(self):
        raise RuntimeError("no text")


def misbehaves(function):
    """Registers a function that runs after a write."""

    def written(ctx: Context) -> object:
        ctx.state.put("written in vain")
        return function(ctx)

    return odd.register(name=function.__name__)(written)


@misbehaves
def multiline(ctx):
    raise ValueError("first\n  second\n\nthird\n")


@misbehaves
def control(ctx):
    raise ValueError('\0"quoted"\r\n\x1b[31mred\u202e {} %s \U0001f4a5')


@misbehaves
def surrogate(ctx):
    raise ValueError("lone \ud800 surrogate")


@misbehaves
def huge(ctx):
    raise ValueError("x" * 5_000_000)


@misbehaves
def silent(ctx):
    raise ValueError


@misbehaves
def raising_str(ctx):
    raise Odd


@misbehaves
def exit(ctx):
    sys.exit(3)


@misbehaves
def interrupt(ctx):
    raise KeyboardInterrupt


@misbehaves
def group(ctx):
    raise BaseExceptionGroup("several", [ValueError("a"), SystemExit(1)])


@misbehaves
def recurse(ctx):
    return recurse_inner() + 1


def recurse_inner():
    return recurse_inner() + 1


@misbehaves
def recurse_in_c(ctx):
    nested = []
    for _ in range(5_000):
        nested = [nested]
    return json.dumps(nested)


@misbehaves
def loop(ctx):
    while True:
        pass


@misbehaves
def loop_catching(ctx):
    while True:
        try:
            raise MemoryError
        except BaseException:
            continue


@misbehaves
def power(ctx):
    return str(7 ** 7 ** 9)


@misbehaves
def hoard(ctx):
    return len(bytes(1 << 28))


@misbehaves
def hoard_slowly(ctx):
    hoarded = []
    while True:
        hoarded.append(bytes(1 << 20))


@odd.register
def fail(ctx: Context) -> None:
    raise ValueError("callee")


@misbehaves
def catch_and_go_on(ctx):
    try:
        ctx.call(odd, "other", fail)
    except Exception:
        pass
    ctx.state.put("saved")
    return True


@misbehaves
def result_surrogate(ctx):
    return "\udfff"


@misbehaves
def result_object(ctx):
    return object()


@misbehaves
def result_nan(ctx):
    return float("nan")


@misbehaves
def result_cycle(ctx):
    cycle = []
    cycle.append(cycle)
    return cycle


@odd.register(read_only=True)
def read_only_write(ctx: Context) -> None:
    ctx.state.put("sneaked")


@misbehaves
def leak(ctx):
    kept.append(ctx.key)
    return len(kept)


@misbehaves
def thread(ctx):
    import threading

    threading.Thread(target=print).start()


@misbehaves
def open_file(ctx):
    return open("/etc/passwd").read()


@misbehaves
def socket(ctx):
    import socket

    return socket.create_connection(("127.0.0.1", 80)).fileno()


@misbehaves
def subprocess(ctx):
    import subprocess

    return subprocess.run(["true"]).returncode


@misbehaves
def abort(ctx):
    os.abort()


@misbehaves
def exit_hard(ctx):
    os._exit(0)


@odd.register
def sleep(ctx: Context) -> str:
    time.sleep(3600)
    return "slept"


@odd.register
def keep_global(ctx: Context) -> int:
    """Changes a global, which nobody can see."""
    kept.append(1)
    return 1
