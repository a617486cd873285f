#!/usr/bin/env bash
# Makes the C library that guests in C are linked with, sdk/c/library, of the sources that zig brings; `check` says whether what is
# committed is what they make. It takes half a minute, in which everybody's first build would wait.
set -euo pipefail
cd "$(dirname "$0")/.."
here=sdk/c/library
mkdir -p .cache/c-library
# Archives have the paths of what they are made of, as seen from where zig is started: no link may be among them.
built=$(realpath .cache/c-library)
source scripts/zig.sh
zig_directory=$("$zig_python" -c 'import os, ziglang; print(os.path.dirname(ziglang.__file__))')
mkdir -p "$built/objects"

# As a guest is compiled. What is stripped has no paths.
flags=(--target=wasm32-wasi -mexec-model=reactor -std=gnu17 -O2 -g0 -s -fno-stack-protector -fsanitize=undefined -fsanitize-trap=undefined)
echo 'int main(void) { return 0; }' > "$built/any.c"
# What it is linked with, the compiler says of itself.
linked=$(cd "$built" && ZIG_GLOBAL_CACHE_DIR=$PWD/objects ZIG_LOCAL_CACHE_DIR=$PWD/objects "$zig_directory/zig" cc --verbose \
  "${flags[@]}" -o any.wasm any.c 2>&1 | sed -n '/^wasm-ld /s/ /\n/gp' | grep -E '/(crt1-reactor\.o|lib[a-z_]*\.a)$')
rm -rf "$built/library"
mkdir "$built/library"
(cd "$built" && cp $linked library)
cp "$zig_directory/LICENSE" "$built/library/LICENSE-zig"
cp "$zig_directory/lib/libc/musl/COPYRIGHT" "$built/library/LICENSE-musl"
cat "$zig_directory"/lib/libc/wasi/LICENSE{,-MIT} > "$built/library/LICENSE-wasi-libc"
chmod 644 "$built"/library/*

case ${1-} in
  check) diff -r "$built/library" "$here" || {
    echo "$here is not what zig's sources make: run scripts/c-library.sh" >&2
    exit 1
  } ;;
  *)
    rm -rf "$here"
    cp -r "$built/library" "$here"
    ls -l "$here"
    ;;
esac
