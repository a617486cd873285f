#!/usr/bin/env bash
# Builds, checks and tests the console (web-ui/): Node and a browser are got here, where they are missing. The server is
# built without either: what it carries of the console is committed.
set -euo pipefail
cd "$(dirname "$0")/../web-ui"

say() { printf '  %s\n' "$*" >&2; }

../scripts/languages.sh
PATH="$PWD/../.cache/node/bin:$PATH"

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
  for app in tests/app/*/; do ../target/release/styx build "$app" >/dev/null; done
  npx playwright test "$@"
}

verb=$1; shift
case $verb in
  build) npm run --silent types && npm run --silent format && npm run --silent build ;;
  check) npm run --silent check ;;
  test) npm run --silent check && npm run --silent unit && tests "$@" ;;
  pictures)
    # One after the other: what pictures show is nobody else's load.
    tests --grep @pictures --workers 1
    mkdir -p ../docs/images
    cp test-results/overview-light.png ../docs/images/console-overview.png
    cp test-results/cluster-two-light.png ../docs/images/console-cluster.png
    cp test-results/request-light.png ../docs/images/console-request.png
    cp test-results/migration-under-way-light.png ../docs/images/console-migration.png
    ;;
  *) say "build, check, test or pictures"; exit 2 ;;
esac
