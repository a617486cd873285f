import assert from 'node:assert/strict';
import { test } from 'node:test';
import { layout } from '../../src/lib/graph';

test('a caller stands left of whom it calls, at their middle', () => {
  const { nodes, columns, rows } = layout(
    [{ id: 'a' }, { id: 'b', parent: 'a' }, { id: 'c', parent: 'a' }, { id: 'd', parent: 'c' }],
    10,
  );
  const at = Object.fromEntries(nodes.map(({ call, x, y }) => [call.id, [x, y]]));
  assert.deepEqual(at, { a: [0, 0.5], b: [1, 0], c: [1, 1], d: [2, 1] });
  assert.deepEqual([columns, rows], [3, 2]);
});

test('no more are drawn than may be; those without their caller are roots', () => {
  const calls = Array.from({ length: 5 }, (_, n) => ({ id: String(n), parent: n ? String(n - 1) : null }));
  assert.equal(layout(calls, 3).left, 2);
  assert.equal(
    layout(
      [
        { id: 'x', parent: 'gone' },
        { id: 'y', parent: 'y' },
      ],
      10,
    ).roots.length,
    2,
  );
});
