#!/usr/bin/env bash
# Makes the part of Python guests that is in C, sdk/python/src/styx/_native.cpython-314-wasm32-wasi.so, of its sources; `check` says
# whether what is committed is what they make.
set -euo pipefail
cd "$(dirname "$0")/.."
here=sdk/python/native
made=sdk/python/src/styx/_native.cpython-314-wasm32-wasi.so
built=.cache/python-native
source scripts/zig.sh
mkdir -p "$built"

# Paths would be in the library: the sources are compiled where they are copied to.
cp "$here"/native.c "$here"/python.h "$here"/world.bin "$built"
(
  cd "$built"
  export ZIG_GLOBAL_CACHE_DIR=$PWD/objects ZIG_LOCAL_CACHE_DIR=$PWD/objects
  "$zig_python" -m ziglang cc --target=wasm32-wasi -std=gnu17 -O3 -g0 -DNDEBUG -fPIC -fvisibility=hidden -mbulk-memory \
    -fno-sanitize=undefined -fno-stack-protector -Wall -Wextra -Wno-unused-parameter -Werror -c native.c -o native.o
  # What it calls is in CPython's library and in C's, which componentize-py links it with.
  "$zig_python" -m ziglang wasm-ld --experimental-pic -shared --no-entry --unresolved-symbols=import-dynamic --strip-debug \
    native.o -o native.so
  # A section says which part of the contract it is.
  python3 - <<'PYTHON'
def number(value):
    return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + number(value >> 7)

name, world = b"component-type:native", open("world.bin", "rb").read()
section = number(len(name)) + name + world
with open("native.so", "ab") as library:
    library.write(b"\0" + number(len(section)) + section)
PYTHON
)
case ${1-} in
  check) cmp "$built/native.so" "$made" || {
    echo "$made is not what its sources make: run \`just python-native\`" >&2
    exit 1
  } ;;
  *)
    cp "$built/native.so" "$made"
    ls -l "$made"
    ;;
esac
