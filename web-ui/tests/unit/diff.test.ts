import assert from 'node:assert/strict';
import { test } from 'node:test';
import { diff, near, type Line } from '../../src/lib/diff';

const MARKS = { same: ' ', added: '+', removed: '-' };
const shown = (lines: Line[]) => lines.map(({ kind, text }) => MARKS[kind] + text).join('|');
const of = (before: string, after: string) => shown(diff([...before], [...after]));

test('what was taken away stands before what has come in its place', () => {
  assert.equal(of('abc', 'axc'), ' a|-b|+x| c');
  assert.equal(of('', 'ab'), '+a|+b');
  assert.equal(of('ab', ''), '-a|-b');
  assert.equal(of('abc', 'abc'), ' a| b| c');
  assert.equal(of('aa', 'aaa'), ' a| a|+a');
  assert.equal(of('abcd', 'bxd'), '-a| b|-c|+x| d');
});

test('each text is found again, and no more is changed than must be', () => {
  let seed = 7;
  const random = (below: number) => (seed = (seed * 48271) % 2147483647) % below;
  const text = () => Array.from({ length: random(12) }, () => 'abc'[random(3)]!);
  const longest = (one: string[], two: string[]): number =>
    !one.length || !two.length
      ? 0
      : one[0] === two[0]
        ? 1 + longest(one.slice(1), two.slice(1))
        : Math.max(longest(one.slice(1), two), longest(one, two.slice(1)));
  for (let round = 0; round < 200; round += 1) {
    const [before, after] = [text(), text()];
    const lines = diff(before, after);
    const without = (kind: Line['kind']) => lines.filter(line => line.kind !== kind).map(line => line.text);
    assert.deepEqual(without('added'), before);
    assert.deepEqual(without('removed'), after);
    assert.equal(lines.filter(line => line.kind === 'same').length, longest(before, after));
  }
});

test('what is far from any change is counted', () => {
  const lines = diff([...'abcdefgh'], [...'abcdefgX']);
  assert.deepEqual(
    near(lines, 2).map(part => (typeof part === 'number' ? part : part.text)),
    [5, 'f', 'g', 'h', 'X'],
  );
  assert.deepEqual(near(diff(['a', 'b'], ['a', 'b']), 2), [2]);
  // Nothing is gained by leaving out one line.
  assert.equal(near(diff([...'abc'], [...'abX']), 1).length, 4);
});

test('thousands of lines that all differ take no time', () => {
  const lines = (name: string) => Array.from({ length: 2000 }, (_, at) => `${name}${at}`);
  const begun = performance.now();
  assert.equal(diff(lines('a'), lines('b')).length, 4000);
  assert.ok(performance.now() - begun < 1000);
});
