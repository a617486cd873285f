import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { test } from 'node:test';
import { parse } from '../../src/lib/json';
import { LANGUAGES, snippet, type Target } from '../../src/lib/snippets';

const plain: Target = {
  url: 'http://127.0.0.1:8080',
  app: 'shop',
  operator: 'stock',
  key: 'apple',
  fn: 'put',
  args: parse('{"pieces": 5, "price": 30}') as Target['args'],
  token: false,
};
const HOSTILE = `it's "a" \\ $(x) \`y\` \u0001\n??/ שלום`;
const hostile: Target = {
  ...plain,
  key: HOSTILE,
  args: parse(JSON.stringify({ 'not a name': [true, null, HOSTILE], class: 1 })) as Target['args'],
};

test('calls read as people write them', () => {
  assert.equal(snippet('Shell', plain), `styx call shop/stock/apple/put '{ "pieces": 5, "price": 30 }'`);
  assert.match(snippet('Python', plain), /styx\.call\("shop", "stock", "apple", "put", pieces=5, price=30\)/);
  assert.match(
    snippet('TypeScript', plain),
    /styx\.call\("shop", "stock", "apple", "put", \{ pieces: 5, price: 30 \}\)/,
  );
  assert.match(snippet('Rust', plain), /json!\(\{"pieces": 5, "price": 30\}\)/);
  assert.match(snippet('Go', plain), /"http:\/\/127\.0\.0\.1:8080\/v1\/call\/shop\/stock\/apple\/put"/);
});

test('a token comes from the environment, where one is asked for', () => {
  for (const language of LANGUAGES) {
    assert.doesNotMatch(snippet(language, plain), /STYX_TOKEN/, language);
    assert.match(snippet(language, { ...plain, token: true }), /STYX_TOKEN/, language);
  }
});

test('names that a language cannot take as they are go by another way', () => {
  assert.match(snippet('Python', hostile), /styx\.request\(.*"not a name": \[True, None, /);
  assert.match(snippet('Python', { ...plain, args: { key: 1 } }), /styx\.request\(.*\{"key": 1\}\)\.value/);
});

test('long numbers keep their digits', () => {
  const args = parse('{"n": 12345678901234567890}') as Target['args'];
  assert.match(snippet('TypeScript', { ...plain, args }), /\{ n: 12345678901234567890n \}/);
  assert.match(snippet('Rust', { ...plain, args }), /serde_json::from_str\("\{ \\"n\\": 12345678901234567890 \}"\)/);
  for (const language of LANGUAGES) assert.match(snippet(language, { ...plain, args }), /12345678901234567890/);
});

test('Rust writes characters in its own way', () => {
  const args = { a: '\\u0001 \u0001\b\f\n"' };
  assert.ok(snippet('Rust', { ...plain, args }).includes(String.raw`json!({"a": "\\u0001 \u{0001}\x08\x0c\n\""})`));
});

// Copies that the compiler reads, with all others of the workspace's: examples of the client. UPDATE_EXAMPLES=1 writes them.
test('Rust is what is compiled against the client', () => {
  const exact = parse('{"n": 12345678901234567890}') as Target['args'];
  const examples: [string, Target][] = [
    ['console_call', plain],
    ['console_call_hostile', { ...hostile, token: true }],
    ['console_call_exact', { ...plain, args: exact }],
  ];
  for (const [name, target] of examples) {
    const file = resolve(`../host/client/examples/${name}.rs`);
    const text = `${snippet('Rust', target)}\n`;
    if (process.env.UPDATE_EXAMPLES) writeFileSync(file, text);
    assert.equal(text, readFileSync(file, 'utf8'), `${name}.rs is not what the console shows: UPDATE_EXAMPLES=1`);
  }
});

test('a shell passes on just what was meant', () => {
  for (const [language, program] of [
    ['Shell', 'styx'],
    ['curl', 'curl'],
  ] as const) {
    const script = `${program}() { printf '%s\\0' "$@"; }; uuidgen() { echo id; }; ${snippet(language, hostile)}`;
    const given = execFileSync('bash', ['-c', script], { encoding: 'utf8' }).split('\0').slice(0, -1);
    assert.deepEqual(JSON.parse(given.at(-1)!), { 'not a name': [true, null, HOSTILE], class: 1 }, language);
    const path = given[language === 'curl' ? 2 : 1]!;
    assert.equal(decodeURIComponent(path.split('/').at(-2)!), HOSTILE, language);
  }
});
