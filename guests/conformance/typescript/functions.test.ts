import assert from "node:assert/strict";
import fs from "node:fs";
import { test } from "node:test";

import { CallFailed, type Untyped } from "styx-sdk";
import { Host } from "styx-sdk/testing";
import { own } from "./functions.js";

// Text as it comes over the wire: numbers that JavaScript cannot hold are written as it is.
const exact = (text: string): any => JSON.parse(text, (_, value, context?: any) => (Number.isInteger(value) && !Number.isSafeInteger(value) ? BigInt(context?.source ?? value) : value));
const shown = (value: unknown): string => JSON.stringify(value, (_, each) => (typeof each === "bigint" ? `#${each}#` : each)).replace(/"#(-?\d+)#"/g, "$1");

test("cases", () => {
  const host = new Host([own]);
  // Seen from the repository, where this runs.
  const lines = fs.readFileSync("guests/conformance/cases.tsv", "utf8").trimEnd().split("\n").slice(1);
  assert.ok(lines.length > 40);
  for (const line of lines) {
    const [key, name, args, expected] = line.split("\t") as [string, string, string, string];
    if (/\d{16}/.test(args) && process.versions.node.startsWith("20.")) continue; // Its JSON does not show the source.
    let found;
    try {
      found = shown(host.call<Untyped>("typescript", key)[name]!(...exact(args)));
    } catch (error) {
      if (!(error instanceof CallFailed)) found = "BAD_ARGUMENTS: it is no call";
      else found = `${error.fullCode}: ${error.message}`;
    }
    assert.ok(found === expected || (!expected.includes(":") && found.startsWith(`${expected}:`)), `${line}: ${found}`);
  }
});
