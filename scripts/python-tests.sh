#!/usr/bin/env bash
# Runs the Python SDK's tests in an environment of their own.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=.cache/python-tests
if [ ! -x "$venv/bin/pytest" ]; then
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check 'pytest>=8,<9'
fi
PYTHONPATH=sdk/python/src "$venv/bin/pytest" --quiet sdk/python/tests
