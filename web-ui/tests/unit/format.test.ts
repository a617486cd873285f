import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ago, bytes, count, line, plural, rate, seconds, shorten, visible } from '../../src/lib/format';

test('figures have as many digits as people read', () => {
  assert.equal(count(65536), '65,536');
  assert.equal(count(10_000_000), '10M');
  assert.deepEqual([0, 0.04, 9.96, 1234.5].map(rate), ['0', '0.0', '10.0', '1,235']);
  assert.deepEqual([0, 1023, 1024, 1_048_000, 1.5 * 2 ** 20, 2 ** 50].map(bytes), [
    '0 B',
    '1023 B',
    '1.0 KiB',
    '1023 KiB',
    '1.5 MiB',
    '1024 TiB',
  ]);
  assert.equal(bytes(2 ** 20 - 400), '1.0 MiB', 'never 1024 of anything');
  assert.deepEqual([0.00005, 0.0123, 0.5, 12, 600].map(seconds), ['50 µs', '12.3 ms', '500 ms', '12.0 s', '10 min']);
  assert.deepEqual([125.4, 3599.7, 3660, 86_400].map(seconds), ['2 min 5 s', '1 h', '1 h 1 min', '24 h']);
  assert.deepEqual([plural(1, 'entity', 'entities'), plural(2, 'call')], ['1 entity', '2 calls']);
});

test('ages are told in their unit', () => {
  const now = Date.parse('2026-01-02T00:00:00Z');
  const told = (text: string) => ago(text, now);
  assert.equal(told('2026-01-01T23:59:58Z'), 'just now');
  assert.equal(told('2026-01-01T23:59:20Z'), '40 s ago');
  assert.equal(told('2026-01-01T20:00:00Z'), '4 h ago');
  assert.equal(told('2025-12-31T00:00:00Z'), '2 days ago');
});

test('what would not be seen, or would turn text around, is made visible', () => {
  assert.equal(visible('a\u202egpj.\u0000'), 'a\\u202egpj.\\u0000');
  assert.equal(visible('two\nlines'), 'two\nlines');
  assert.equal(line('two\nlines'), 'two\\nlines');
  assert.equal(visible('שלום 🦀'), 'שלום 🦀');
  assert.equal(shorten('abcdef', 3), 'abc…');
  assert.equal(shorten('a🦀🦀', 2), 'a…');
  assert.equal(shorten('a🦀🦀', 3), 'a🦀…');
});
