#!/usr/bin/env bash
# Runs the TypeScript SDK's tests, and those of guests, in Node.js, with the tools that its lock file names.
set -euo pipefail
cd "$(dirname "$0")/.."
tools=.cache/typescript-tests
wanted=$(cat sdk/typescript/tools/package-lock.json <(node --version) | sha256sum | cut -c1-16)
if [ ! -e "$tools/$wanted" ]; then
  rm -rf "$tools"
  mkdir -p "$tools"
  cp sdk/typescript/tools/package*.json "$tools"
  npm install --prefix "$tools" --no-save --ignore-scripts --no-audit --no-fund --no-update-notifier --loglevel error
  touch "$tools/$wanted"
fi
# A copy, as `styx build` has it: what is installed lies beside it and not among the sources.
rm -rf "$tools/sdk"
cp -r sdk/typescript "$tools/sdk"
ln -s ../../node_modules "$tools/sdk/tools/node_modules"
node "$tools/node_modules/typescript/bin/tsc" --project "$tools/sdk/tsconfig.json"
node "$tools/sdk/tools/test.mjs" "$tools/sdk"
for guest in guests/*-typescript guests/{conformance,journey}/typescript; do
  if compgen -G "$guest/*.test.ts" >/dev/null; then node "$tools/sdk/tools/test.mjs" "$guest"; fi
done
