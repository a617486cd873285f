// Why a request was slow or aborted, and what functions have logged.
import { expect, test } from '@playwright/test';
import { look, title, watch } from './pages';
import { Server } from './server';

let server: Server;
test.beforeAll(async () => {
  // Nobody is watched who does not ask for it.
  server = await Server.single(undefined, '--trace-sample', 'off');
  await server.deploy('shop');
  for (const item of ['apple', 'pear', 'plum']) await server.call(`shop/stock/${item}/put`, [1000, 3]);
});
test.afterAll(() => server?.stop());

const HOSTILE = '<img src=x onerror=alert(1)>\u202egpj.\u0000\u0007 ';

test('a request shows its time, its call graph and its log @pictures', async ({ page }) => {
  const check = watch(page, server.admin);
  const { id } = await server.watched('shop/order/o1/buy', [{ apple: 2, pear: 1, plum: 4 }]);
  await page.goto(`${server.admin}/requests`);
  await title(page, 'Requests');
  await page.getByRole('link', { name: 'shop/order.buy' }).first().click();
  await expect(page).toHaveURL(new RegExp(`/requests/${id}$`));
  await title(page, 'order.buy');
  await expect(page.getByRole('list', { name: 'Phases' }).getByRole('listitem').first()).toBeVisible();
  const graph = page.getByRole('region', { name: 'Call graph, execution 1' });
  await expect(graph.locator('rect.call')).toHaveCount(7);
  await expect(graph.locator('path.edge.async')).toHaveCount(3);
  // In which language each is written.
  await expect(graph.getByText('Python', { exact: true })).toHaveCount(7);
  await page.getByText('As a list').click();
  const list = page.getByRole('listitem').filter({ hasText: 'order.buy for o1' });
  await expect(list.getByRole('listitem').filter({ hasText: 'stock.take for apple' })).toBeVisible();
  await expect(list.getByRole('listitem').filter({ hasText: 'asynchronously ledger.note for plum' })).toBeVisible();
  await expect(page.getByRole('list', { name: 'Log lines' })).toContainText('o1 wants 3 kinds');
  await page.getByText('As a list').click();
  await look(page, 'request');
  await page.getByText(/^RW set/).click();
  await expect(page.getByRole('region', { name: 'RW set of execution 1' }).getByRole('row')).toHaveCount(8);
  await page.goto(`${server.admin}/requests`);
  await expect(page.getByRole('region', { name: 'Requests' }).getByRole('row').nth(1)).toBeVisible();
  await look(page, 'requests');
  check();
});

test('those that abort are found, and what they wanted', async ({ page }) => {
  const check = watch(page, server.admin);
  await server.call('shop/order/o2/buy', [{ apple: 100_000 }]);
  await page.goto(`${server.admin}/requests`);
  await page.getByLabel('Show').selectOption('aborted');
  await page.getByLabel('App').selectOption('shop');
  // What is asked for is in the address.
  await expect(page).toHaveURL(/\?kind=aborted&app=shop$/);
  await page.reload();
  await expect(page.getByLabel('Show')).toHaveValue('aborted');
  await expect(page.getByText('not enough apple').first()).toBeVisible();
  await page.getByRole('link', { name: 'shop/order.buy' }).first().click();
  await expect(page.getByRole('alert')).toContainText('not enough apple');
  // The order, the note that it sent beside it, and what was refused.
  await expect(page.getByRole('region', { name: /^Call graph/ }).locator('rect.call')).toHaveCount(3);
  await look(page, 'request-aborted');
  check();
});

test('requests that conflict say with whom', async ({ page }) => {
  const buy = (n: number) => server.watched(`shop/order/c${n}/buy`, [{ apple: 1 }]);
  let found: string | undefined;
  for (let at = 0; at < 20 && !found; at += 1) {
    const calls = await Promise.all(Array.from({ length: 8 }, (_, n) => buy(at * 8 + n)));
    for (const { id } of calls) {
      const trace = (await (await fetch(`${server.admin}/v1/requests/${id}/trace`)).json()) as {
        attempts: { conflicts: unknown[] }[];
      };
      if (trace.attempts.some(({ conflicts }) => conflicts.length > 0)) found = id;
    }
  }
  expect(found, 'none has conflicted').toBeDefined();
  await page.goto(`${server.admin}/requests/${found}`);
  await expect(
    page
      .getByRole('region', { name: /^Conflicts/ })
      .getByText('stock/apple')
      .first(),
  ).toBeVisible();
  await look(page, 'request-conflict');
});

test('lines come as they are written, and are chosen', async ({ page }) => {
  const check = watch(page, server.admin);
  await page.goto(`${server.admin}/logs`);
  await title(page, 'Logs');
  await server.call('shop/order/live/buy', [{ apple: 1 }]);
  const lines = page.getByRole('region', { name: 'Log lines' });
  await expect(lines.getByText('live wants 1 kinds')).toBeVisible();
  await look(page, 'logs');
  await page.getByLabel('At least').selectOption('error');
  await expect(page.getByText('No function has logged anything')).toBeVisible();
  await page.getByLabel('At least').selectOption('debug');
  await page.getByLabel('Function').fill('order.buy');
  await expect(lines.getByText('live wants 1 kinds')).toBeVisible();
  // What is asked for is in the address.
  await page.reload();
  await expect(page.getByLabel('Function')).toHaveValue('order.buy');
  await expect(lines.getByText('live wants 1 kinds')).toBeVisible();
  check();
});

test('an entity shows who wrote it last, and what that has changed', async ({ page }) => {
  const check = watch(page, server.admin);
  await server.call('shop/stock/fig/put', [10, 5]);
  await page.goto(`${server.admin}/state/shop/stock/fig`);
  const write = page.getByRole('region', { name: 'Last write' });
  await expect(write.getByText('Not recorded')).toBeVisible();
  const { id } = await server.watched('shop/stock/fig/take', [4]);
  const changed = write.getByRole('region', { name: 'What has changed' });
  await expect(changed).toHaveText('  {−   "pieces": 10,+   "pieces": 6,    "price": 5  }', { timeout: 15_000 });
  await expect(changed.locator('del')).toHaveText('−   "pieces": 10,');
  await expect(write.getByRole('link', { name: 'stock.take' })).toHaveAttribute('href', `/requests/${id}`);
  await expect(write.getByText('nobody watched')).toHaveCount(0);
  await look(page, 'entity-change');
  // Somebody whom nobody watched comes afterwards.
  await server.call('shop/stock/fig/take', [1]);
  await expect(write.getByText('It is another by now')).toBeVisible({ timeout: 15_000 });
  await expect(changed.locator('ins')).toHaveText('+   "pieces": 6,');
  // It was not there before; it was the same; it is too large.
  await server.watched('shop/drawer/lid/keep', [['a', 'b']]);
  await page.goto(`${server.admin}/state/shop/drawer/lid`);
  await expect(write).toContainText('It was not there before.');
  await expect(changed.locator('ins')).toHaveCount(4);
  await server.watched('shop/drawer/lid/keep', [['a', 'b']]);
  await expect(write).toContainText('It was the same before.', { timeout: 15_000 });
  await server.watched('shop/drawer/lid/fill', [5000]);
  await expect(write).toContainText('larger than 4 KiB', { timeout: 15_000 });
  check();
});

test('hostile names and values stay text', async ({ page }) => {
  const check = watch(page, server.admin);
  const key = encodeURIComponent(HOSTILE);
  const { id } = await server.watched(`shop/order/${key}/buy`, [{ [HOSTILE]: 1 }]);
  await page.goto(`${server.admin}/requests/${id}`);
  await title(page, 'order.buy');
  await expect(page.locator('main img')).toHaveCount(0);
  await expect(page.getByText('\\u202e').first()).toBeVisible();
  await page.goto(`${server.admin}/logs`);
  await expect(page.getByRole('region', { name: 'Log lines' })).toContainText('onerror');
  await expect(page.locator('main img')).toHaveCount(0);
  await look(page, 'logs-hostile');
  // A megabyte.
  expect(await server.call('shop/drawer/large/fill', [1_000_000])).toBe(1_000_000);
  await page.goto(`${server.admin}/state/shop/drawer/large`);
  await expect(page.locator('.value-text')).toBeVisible();
  await look(page, 'entity-large');
  check();
});

test('a request that nobody has watched says so', async ({ page }) => {
  await page.goto(`${server.admin}/requests/${'0'.repeat(32)}`);
  await expect(page.getByRole('alert')).toContainText('NOT_TRACED');
});

test('a form leads to how its call went', async ({ page }) => {
  await page.goto(`${server.admin}/apps/shop/stock/take`);
  await page.getByLabel('key', { exact: true }).fill('pear');
  await page.getByLabel('pieces').fill('1');
  await page.getByRole('button', { name: 'Call' }).click();
  await page.getByRole('link', { name: 'How it went' }).click();
  await title(page, 'stock.take');
});
