#!/usr/bin/env bash
# Runs the Python SDK's tests, those on real components included, in an environment of their own.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=.cache/python-tests
wanted=$(sha256sum sdk/python/pyproject.toml | cut -c1-16)
if [ ! -e "$venv/$wanted" ]; then
  rm -rf "$venv"
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check -e 'sdk/python[component-test]'
  touch "$venv/$wanted"
fi
PATH="$PWD/$venv/bin:$PATH" pytest --quiet sdk/python/tests
