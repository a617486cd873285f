import assert from "node:assert/strict";
import { test } from "node:test";

import { operator, type Operator } from "styx-sdk";
import { Host } from "styx-sdk/testing";
import { item, order } from "./shop.js";

function described(operator: Operator<any>, name: string) {
  const found = new Host([item, order]).describe().operators.find((each) => each.name === operator.name)!;
  return found.functions.find((each) => each.name === name)!;
}

function schemas(operator: Operator<any>, name: string): unknown {
  return described(operator, name).parameters.map((each) => JSON.parse(each.schema));
}

test("names, comments and marks", () => {
  const [first, second] = new Host([item, order]).describe().operators;
  assert.deepEqual([first!.name, first!.doc, first!.keyPrefix, second!.doc], ["item", "Things on the shelf.", null, ""]);
  assert.deepEqual(first!.functions.map((each) => [each.name, each.readOnly]), [["insert", false], ["take", false], ["left", true], ["spoil", true]]);
  assert.equal(described(item, "take").doc, "Takes some: returns what they cost.");
});

test("parameters and results from types", () => {
  assert.deepEqual(described(item, "insert"), {
    name: "insert",
    parameters: [
      { name: "stock", schema: '{"type":"integer"}', required: true },
      { name: "price", schema: '{"type":"integer","default":1}', required: false },
    ],
    returns: '{"type":"null"}',
    readOnly: false,
    doc: "Sets what there is.",
  });
  assert.deepEqual(described(item, "left").parameters, [{ name: "unit", schema: '{"type":"string"}', required: false }]);
  assert.equal(described(item, "left").returns, '{"type":"string"}');
  assert.equal(described(order, "slowly").returns, '{"type":"integer"}');
  assert.deepEqual(schemas(order, "keeps"), [{}]);
  assert.deepEqual(schemas(order, "exact"), [{ type: "integer", $comment: "bigint" }, { type: "number" }]);
  const tree = {
    title: "Tree",
    type: "object",
    properties: { name: { type: "string" }, children: { type: "array", items: { $ref: "#/$defs/Tree" } } },
    required: ["name", "children"],
    additionalProperties: false,
  };
  assert.deepEqual(schemas(order, "shapes"), [
    { enum: ["red", "blue", 3] },
    { $ref: "#/$defs/Tree", $defs: { Tree: tree } },
    { type: "array", prefixItems: [{ type: "string" }, { type: "integer" }], items: false, minItems: 1, maxItems: 2 },
    { type: "object", additionalProperties: { type: "boolean" } },
    {
      type: "object",
      properties: { a: { anyOf: [{ type: "string" }, { type: "null" }] } },
      required: [],
      additionalProperties: false,
    },
  ]);
});

test("names that are not allowed are refused", () => {
  const rule = "is not allowed: start with a letter, then use letters, digits, _ and -, at most 64";
  const message = (run: () => unknown) => {
    try {
      run();
    } catch (error) {
      return (error as Error).message;
    }
    return "none";
  };
  assert.equal(message(() => operator("1st", { f() {} })), `the operator's name "1st" ${rule}`);
  assert.equal(message(() => operator("a", { "b c"() {} })), `the function's name "a.b c" ${rule}`);
  assert.equal(message(() => operator("a", { f() {} }, { keyPrefix: "" })), `a: keyPrefix "" ${rule}`);
  assert.match(message(() => new Host([item, { ...item }])), /^the operator item is declared twice/);
});
