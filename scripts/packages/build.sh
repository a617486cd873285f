#!/usr/bin/env bash
# Makes the packages that registries would have, in target/packages, and publishes none of them:
#   styx-functions (Python: the command and the SDK), styx-client (Python, npm, Rust), styx-sdk (npm, Rust).
set -euo pipefail
cd "$(dirname "$0")/../.."
out=$PWD/target/packages work=$PWD/.cache/packages
rm -rf "$out" "$work/sources"
mkdir -p "$out" "$work/sources"
say() { printf '  ✓ %s  %s\n' "$(basename "$1")" "$(du -h "$1" | cut -f1)"; }

# What is built leaves nothing among the sources: all of it is built in copies.
copy() { mkdir -p "$work/sources/$1" && tar -c -C "$1" --exclude=node_modules --exclude=dist --exclude=build --exclude='*.egg-info' --exclude=__pycache__ . | tar -x -C "$work/sources/$1"; }

# Python. Without the sections for debuggers, the command is a quarter of its size.
[ -e "$work/venv/bin/pip" ] || python3 -m venv "$work/venv"
for package in sdk/python clients/python; do
  copy $package
  "$work/venv/bin/pip" wheel --quiet --disable-pip-version-check --no-deps --wheel-dir "$work/sources" "$work/sources/$package"
done
strip -o "$work/styx" target/release/styx
say "$(scripts/packages/wheel.py "$work"/sources/styx_functions-*.whl "$work/styx" "$out")"
mv "$work"/sources/styx_client-*.whl "$out"
say "$out"/styx_client-*.whl

# npm: the SDK is its sources, the client is compiled.
for package in sdk/typescript clients/typescript; do copy $package; done
(
  cd "$work/sources/clients/typescript"
  npm ci --ignore-scripts --no-audit --no-fund --no-update-notifier --loglevel error >/dev/null
  npm run --silent build
)
for package in sdk/typescript clients/typescript; do
  say "$out/$(cd "$work/sources/$package" && npm pack --silent --ignore-scripts --pack-destination "$out")"
done

# Rust. That they compile as packages is told by whoever uses them: test.sh.
cargo package --quiet --no-verify --allow-dirty --target-dir "$work/cargo" -p styx-sdk-macros -p styx-sdk -p styx-client
mv "$work"/cargo/package/*.crate "$out"
for crate in "$out"/*.crate; do say "$crate"; done
