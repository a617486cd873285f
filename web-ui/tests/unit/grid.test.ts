import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cellAt, cellBy, columnAt, gridOf, strength } from '../../src/lib/grid';

test('every cell is within the width, and can be pointed at', () => {
  for (const cells of [1, 7, 64, 1024, 4096, 65_536]) {
    for (const width of [160, 358, 1040]) {
      for (const density of [1, 1.5, 2]) {
        const grid = gridOf(cells, width, density);
        assert.ok(columnAt(grid, grid.across) <= Math.round(width * density), `${cells} in ${width}`);
        if (cells >= 1024) assert.ok(columnAt(grid, grid.across) >= Math.floor(width * density) - 1, 'up to the edge');
        assert.ok(grid.across * grid.down >= cells && grid.across * (grid.down - 1) < cells);
        const last = cells - 1;
        const [x, y] = [columnAt(grid, last % grid.across) + 1, Math.floor(last / grid.across) * grid.pitch + 1];
        assert.equal(cellAt(grid, cells, x, y), last);
        assert.equal(cellAt(grid, cells, x, y + grid.pitch), null);
      }
    }
  }
});

test('keys lead from cell to cell and not out of the map', () => {
  const grid = { across: 4, down: 3, pitch: 10, wide: 10 };
  assert.equal(cellBy('ArrowRight', 0, grid, 10), 1);
  assert.equal(cellBy('ArrowDown', 1, grid, 10), 5);
  assert.equal(cellBy('ArrowDown', 7, grid, 10), 7);
  assert.equal(cellBy('ArrowUp', 2, grid, 10), 2);
  assert.equal(cellBy('End', 0, grid, 10), 9);
  assert.equal(cellBy('Tab', 0, grid, 10), null);
});

test('strength is none for nothing, and all for the most', () => {
  assert.deepEqual([strength(0, 10), strength(10, 10), strength(5, 0)], [0, 1, 0]);
  assert.ok(strength(1, 100) > 0 && strength(1, 100) < strength(2, 100));
});
