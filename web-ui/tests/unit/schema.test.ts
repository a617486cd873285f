import assert from 'node:assert/strict';
import { test } from 'node:test';
import { example, inputFor, resolve, typeOf } from '../../src/lib/schema';

test('types read as people write them', () => {
  for (const [schema, text] of [
    [{ type: 'integer' }, 'integer'],
    [{ type: 'array', items: { type: 'string' } }, 'string[]'],
    [{ anyOf: [{ type: 'integer' }, { type: 'null' }] }, 'integer | null'],
    [{ enum: ['card', 'cash'] }, '"card" | "cash"'],
    [{ type: 'object', properties: { a: {}, b: {} }, required: ['a'] }, '{ a, b? }'],
    [{ type: 'object', additionalProperties: { type: 'integer' } }, '{ …: integer }'],
    [{}, 'any'],
    [true, 'any'],
  ] as const) {
    assert.equal(typeOf(schema), text);
  }
});

test('references lead within the schema, and one that leads to itself ends', () => {
  const item = { $ref: '#/$defs/a~1b', $defs: { 'a/b': { type: 'boolean' } } };
  assert.equal(typeOf(item), 'boolean');
  assert.deepEqual(resolve({ $ref: '#' }), { $ref: '#' });
  const tree = { type: 'array', items: { $ref: '#' } };
  assert.match(typeOf(tree), /…/);
  assert.deepEqual(example(tree), []);
});

test('each kind of argument has its input, and something to begin with', () => {
  assert.deepEqual(inputFor({ type: 'integer' }), { kind: 'number', integer: true });
  assert.deepEqual(inputFor({ enum: [1, 2] }), { kind: 'choice', values: [1, 2] });
  assert.equal(inputFor({ type: ['string', 'null'] }).kind, 'json');
  const schema = { type: 'object', properties: { n: { type: 'integer' }, s: { default: 'x' } } };
  assert.deepEqual(example(schema), { n: 0, s: 'x' });
});
