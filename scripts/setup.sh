#!/usr/bin/env bash
# Installs what is missing for building Styx and its guests. Quick when nothing is.
set -euo pipefail

say() { printf '  %s\n' "$*" >&2; }

command -v cargo >/dev/null || { say "Rust is missing: install it by rustup, then run this again"; exit 1; }
# For librdkafka, zstd and the cryptography under TLS, which are built from their sources.
for tool in cc c++ cmake; do
  command -v "$tool" >/dev/null && continue
  say "adding a C and C++ compiler and cmake"
  as_root=""; [ "$(id -u)" = 0 ] || as_root=sudo
  $as_root apt-get update -qq && $as_root apt-get install -y -qq build-essential cmake >/dev/null
  break
done
command -v python3 >/dev/null || { say "Python 3.11 or newer is missing"; exit 1; }

# A std for WebAssembly guests: the usual target, else the distribution's compiler with its sources.
has_target() { [ -d "$(rustc --print target-libdir --target wasm32-unknown-unknown 2>/dev/null)" ]; }
has_distribution() { [ -x /usr/bin/cargo ] && [ -x /usr/bin/wasm-ld-22 ] && [ -d /usr/src/rustc-web ] || dpkg -s rust-web-src >/dev/null 2>&1; }
if ! has_target && ! has_distribution; then
  say "adding the Rust target wasm32-unknown-unknown"
  if ! { command -v rustup >/dev/null && timeout 120 rustup --quiet target add wasm32-unknown-unknown 2>/dev/null && has_target; }; then
    say "rustup cannot add it: taking the distribution's compiler (rustc-web) instead"
    as_root=""; [ "$(id -u)" = 0 ] || as_root=sudo
    $as_root apt-get update -qq
    $as_root apt-get install -y -qq rustc-web cargo-web rust-web-src lld-22 >/dev/null
  fi
fi
