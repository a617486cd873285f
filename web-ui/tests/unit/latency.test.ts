import assert from 'node:assert/strict';
import { test } from 'node:test';
import { minus, percentile, type Buckets } from '../../src/lib/latency';

const buckets: Buckets = [
  [0.001, 10],
  [0.002, 80],
  [0.004, 10],
  [null, 0],
];

test('percentiles lie in their bucket', () => {
  assert.equal(percentile(buckets, 0.5), 0.0015);
  assert.equal(percentile(buckets, 0.1), 0.001);
  assert.ok(Math.abs(percentile(buckets, 0.99)! - 0.0038) < 1e-9);
  assert.equal(percentile([[0.001, 0]], 0.5), null);
});

test('where a bucket is open, no more is said than where it begins', () => {
  assert.equal(
    percentile(
      [
        [0.001, 1],
        [null, 9],
      ],
      0.99,
    ),
    0.001,
  );
});

test('a window is what came since; after a restart, all', () => {
  const later: Buckets = buckets.map(([end, n], at) => [end, n + at]);
  assert.deepEqual(
    minus(later, buckets).map(([, n]) => n),
    [0, 1, 2, 3],
  );
  assert.deepEqual(minus([[0.001, 1]], [[0.001, 5]]), [[0.001, 1]]);
  assert.deepEqual(minus([[0.001, 4]], []), [[0.001, 4]]);
});
