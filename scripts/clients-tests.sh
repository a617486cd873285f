#!/usr/bin/env bash
# Runs the tests of the clients in Python and TypeScript, against a real server (target/release/styx).
set -euo pipefail
cd "$(dirname "$0")/.."
venv=.cache/client-tests
wanted=$(sha256sum clients/python/pyproject.toml | cut -c1-16)
if [ ! -e "$venv/$wanted" ]; then
  rm -rf "$venv"
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check -e 'clients/python[test]'
  touch "$venv/$wanted"
fi
"$venv/bin/mypy" --strict --no-error-summary clients/python/src
"$venv/bin/pytest" --quiet clients/python/tests "$@"
# In a copy, so that nothing is installed among the sources.
tools=.cache/client-tests-typescript
mkdir -p "$tools/clients"
rm -rf "$tools/clients/typescript/src" "$tools/clients/typescript/test" "$tools/clients/typescript/build"
cp -r clients/typescript "$tools/clients/"
ln -sfn "$PWD/guests" "$tools/guests"
(
  cd "$tools/clients/typescript"
  wanted=$(cat package.json <(node --version) | sha256sum | cut -c1-16)
  if [ ! -e "node_modules/.$wanted" ]; then
    npm ci --ignore-scripts --no-audit --no-fund --no-update-notifier --loglevel error
    touch "node_modules/.$wanted"
  fi
  STYX_BIN=${STYX_BIN:-$OLDPWD/target/release/styx} npm test --silent
)
