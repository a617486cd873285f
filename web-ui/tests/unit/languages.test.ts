import assert from 'node:assert/strict';
import { test } from 'node:test';
import { languageOf, located } from '../../src/lib/languages';

test('an SDK tells its language', () => {
  assert.deepEqual(['styx-python 0.2.0', 'styx-c 0.1.0', 'styx-typescript 0.1.0'].map(languageOf), [
    'Python',
    'C',
    'TypeScript',
  ]);
  assert.deepEqual(['somebody-else 1', 'alone', ''].map(languageOf), ['somebody-else', 'alone', '']);
});

test('an operator is of the app that it is told with, or of the caller’s', () => {
  assert.deepEqual(located('stock', 'shop'), ['shop', 'stock']);
  assert.deepEqual(located('bank/account', 'shop'), ['bank', 'account']);
});
