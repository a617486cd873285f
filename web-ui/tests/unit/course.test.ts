import assert from 'node:assert/strict';
import { test } from 'node:test';
import { placed, positionOf, spanOf } from '../../src/lib/course';

const points = [
  { after_ms: -3000, ms: 2000 },
  { after_ms: -1000, ms: 2000 },
  { after_ms: 1000, ms: 4010 },
];

test('a moment is where its point is, a point being its middle', () => {
  assert.equal(positionOf(points, -2000), 0);
  assert.equal(positionOf(points, -1000), 0.5);
  assert.equal(positionOf(points, 0), 1);
  assert.equal(positionOf(points, 1000), 1.5);
  assert.equal(positionOf(points, 9000), 3);
  assert.ok(positionOf(points, -9000) < 0);
  assert.equal(positionOf([], 0), 0);
});

test('points are told by when they were', () => {
  assert.deepEqual(points.map(placed), ['2.0 s before', 'after 0 µs', 'after 3.0 s']);
  assert.equal(spanOf(points), 4);
});
