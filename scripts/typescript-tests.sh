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
scratch=$(mktemp -d)
trap 'rm -r "$scratch"' EXIT
# The code in the README is an app, another operator, and the app's test.
readme=$scratch/readme
mkdir "$readme"
block() { awk -v wanted="$1" '/^```ts$/ { n++; inside = 1; next } /^```/ { inside = 0 } inside && n == wanted' sdk/typescript/README.md; }
block 1 >"$readme/shop.ts"
block 2 >"$readme/shelf.ts"
block 3 >"$readme/shop.test.ts"
cat >"$readme/shelf.test.ts" <<'END'
import assert from "node:assert/strict";
import { test } from "node:test";
import { Host } from "styx-sdk/testing";
import { shelf } from "./shelf.js";

test("what was there before is migrated", () => {
  const host = new Host([shelf]);
  host.put(shelf, "a", { count: 3 });
  assert.equal(host.call(shelf, "a").take(1), 2);
  assert.deepEqual(host.get(shelf, "a"), { pieces: 2 });
});
END
node "$tools/sdk/tools/test.mjs" "$readme"

# What fails is shown with its place in the project.
failing=$scratch/failing
mkdir "$failing"
cat >"$failing/fails.ts" <<'END'
import { operator } from "styx-sdk";

export const fails = operator("fails", {
  now(ctx): void {
    (ctx.state.get() as { missing: { member: string } }).missing.member;
  },
});
END
cat >"$failing/fails.test.ts" <<'END'
import { test } from "node:test";
import { Host } from "styx-sdk/testing";
import { fails } from "./fails.js";

test("fails", () => {
  new Host([fails]).call(fails, "a").now();
});
END
if shown=$(node "$tools/sdk/tools/test.mjs" "$failing"); then echo "a test that fails did not"; exit 1; fi
for place in fails.ts:5 fails.test.ts:6; do
  [[ $shown == *"/$place:"* ]] || { echo "$shown"; echo "$place is not shown"; exit 1; }
done

# A component is the same to the byte wherever the SDK lies.
near=$scratch/sdk
far=$scratch/elsewhere/deeper
mkdir -p "$near" "$far"
for place in "$near" "$far"; do
  cp -r sdk/typescript "$place/sdk"
  ln -s "$PWD/$tools/node_modules" "$place/sdk/tools/node_modules"
  node "$place/sdk/tools/build.mjs" guests/ycsb-typescript ycsb.ts --sdk "$place/sdk" -o "$place/bundle.json"
done
cmp "$near/bundle.json" "$far/bundle.json"
