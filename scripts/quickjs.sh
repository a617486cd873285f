#!/usr/bin/env bash
# Makes the engine of guests in TypeScript, sdk/typescript/engine/engine.wasm, of its sources and QuickJS's; `check` says whether
# what is committed is what they make.
set -euo pipefail
cd "$(dirname "$0")/.."
here=sdk/typescript/engine
tools=.cache/quickjs
source scripts/zig.sh
quickjs=$(cargo metadata --locked --format-version 1 --manifest-path "$here/Cargo.toml" | python3 -c '
import json, os, sys
packages = json.load(sys.stdin)["packages"]
[found] = [package["manifest_path"] for package in packages if package["name"] == "rquickjs-sys"]
print(os.path.join(os.path.dirname(found), "quickjs"))')

# Paths would be in the module: the sources are compiled where they are copied to.
built=$tools/built
rm -rf "$built"
mkdir -p "$built"
cp -r "$quickjs" "$built/quickjs"
cp sdk/c/src/{arena,clock,component}.c "$built"
cp "$here"/*.{c,h} sdk/c/src/*.h sdk/c/include/*.h "$built"
(
  cd "$built"
  ZIG_GLOBAL_CACHE_DIR=$PWD/../objects ZIG_LOCAL_CACHE_DIR=$PWD/../objects "$zig_python" -m ziglang cc \
    --target=wasm32-wasi -mexec-model=reactor -nostartfiles -Wl,--no-entry -Wl,-z,stack-size=1048576 -Wl,--gc-sections -Wl,--strip-debug \
    -std=gnu17 -O3 -g0 -DNDEBUG -D_GNU_SOURCE -DEMSCRIPTEN -DFE_DOWNWARD=0 -DFE_UPWARD=0 \
    -fno-sanitize=undefined -fno-stack-protector -fno-math-errno -mbulk-memory -w \
    -I. -Iquickjs -o engine.wasm \
    ./*.c quickjs/{libregexp,libunicode,dtoa}.c
)
case ${1-} in
  check) cmp "$built/engine.wasm" "$here/engine.wasm" || {
    echo "$here/engine.wasm is not what its sources make: run \`just quickjs\`" >&2
    exit 1
  } ;;
  *)
    cp "$built/engine.wasm" "$here/engine.wasm"
    cp "$quickjs/LICENSE" "$here/LICENSE-QuickJS"
    ls -l "$here/engine.wasm"
    ;;
esac
