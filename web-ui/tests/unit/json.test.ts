import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ExactNumber, parse, stringify } from '../../src/lib/json';

test('numbers keep their digits', () => {
  for (const text of ['12345678901234567890', '0.1234567890123456789', '1e400', '-9007199254740993']) {
    assert.equal(stringify(parse(text)), text);
    assert.equal(stringify(parse(`[ {"a": ${text}} , 1 ]`)).replace(/\s/g, ''), `[{"a":${text}},1]`);
  }
  assert.ok(parse('12345678901234567890') instanceof ExactNumber);
  assert.equal(parse('9007199254740991'), 9007199254740991);
});

test('a fraction of nothing makes no other number of one', () => {
  const long = '{"started": 1764338728123456, "after_ms": 0.0, "left": 393.0, "share": 0.50, "small": 1e-7, "ten": 10}';
  const { after_ms, left, share, small, ten } = parse(long) as Record<string, unknown>;
  assert.deepEqual([after_ms, left, share, ten], [0, 393, 0.5, 10]);
  assert.equal(small, 1e-7);
  assert.equal(stringify(parse('[12345678901234567890.0, 100]')), '[12345678901234567890.0, 100]');
});

test('what is no JSON is refused by both readers', () => {
  const long = '1234567890123456789';
  for (const text of [
    '',
    '{',
    '[1,',
    `[${long},`,
    `[${long}] x`,
    `{"a" ${long}}`,
    `{a: ${long}}`,
    `[${long} 1]`,
    `"${long}`,
  ]) {
    assert.throws(() => parse(text), SyntaxError, text);
  }
});

test('names of guests are names, whatever they are', () => {
  const object = parse('{"__proto__": 12345678901234567890, "constructor": 1}') as Record<string, unknown>;
  assert.deepEqual(Object.keys(object), ['__proto__', 'constructor']);
  assert.equal(({} as Record<string, unknown>).polluted, undefined);
});

test('strings with escapes come back as they were', () => {
  const hostile = 'a"b\\c\n\u0000\u202e 🦀 1234567890123456789';
  assert.equal(parse(JSON.stringify(hostile)), hostile);
  assert.deepEqual({ ...(parse(`{"x":[${JSON.stringify(hostile)}]}`) as object) }, { x: [hostile] });
});
