// A cluster of two workers, of which one is emptied while calls go on.
import { expect, test } from '@playwright/test';
import { isAccessible, look, title, watch } from './pages';
import { Server } from './server';

let server: Server;
test.beforeAll(async () => {
  server = await Server.cluster(2);
  await server.deploy('shop');
});
test.afterAll(() => server?.stop());

test('partitions are moved under load @pictures', async ({ page }) => {
  const check = watch(page, server.admin);
  const wrong: unknown[] = [];
  let under = true;
  const calls = (async () => {
    for (let at = 0; under; at += 1) {
      const answers = await Promise.all(
        Array.from({ length: 8 }, (_, n) => server.call(`shop/stock/k${(at * 8 + n) % 300}/put`, [at])),
      );
      wrong.push(...answers.filter(answer => answer !== null));
    }
  })();
  await page.goto(`${server.admin}/cluster`);
  await expect(page.getByRole('region', { name: 'Workers' }).getByRole('row')).toHaveCount(3);
  const map = page.getByRole('img', { name: /Partitions by worker/ });
  // A worker that was there later has its share by a migration of its own.
  await expect(map).toHaveAttribute('aria-label', /worker 1 has \d+, worker 2 has \d+/, { timeout: 90_000 });
  const moves = Number(/worker 2 has (\d+)/.exec((await map.getAttribute('aria-label')) ?? '')?.[1]);
  await expect(map.locator('rect')).toHaveCount(1024);
  await page.getByRole('link', { name: 'Move partitions' }).click();
  await title(page, 'Migrations');
  await page.getByLabel('Empty a worker').check();
  await page.getByLabel('Worker to empty').selectOption('2');
  const dialog = page.getByRole('dialog');
  const history = page.getByRole('region', { name: 'History' });
  await page.getByRole('button', { name: 'Plan' }).click();
  await expect(dialog.getByRole('heading', { name: `Move ${moves} partitions?` })).toBeVisible();
  await expect(dialog.getByRole('cell', { name: `${1024 - moves} → 1,024` })).toBeVisible();
  await dialog.getByRole('button', { name: 'Start' }).click();
  await expect(history.getByRole('row', { name: new RegExp(`done worker 2 → 1: ${moves}`) })).toBeVisible({
    timeout: 90_000,
  });
  await expect(map).toHaveAttribute('aria-label', /worker 1 has 1024$/);
  await page.getByLabel('Even shares').check();
  await page.getByRole('button', { name: 'Plan' }).click();
  await dialog.getByRole('button', { name: 'Start' }).click();
  await expect(history.getByRole('row', { name: /done worker 1 → 2/ })).toBeVisible({ timeout: 90_000 });
  await expect(map).toHaveAttribute('aria-label', /worker 1 has \d+, worker 2 has \d+$/);
  await look(page, 'cluster-migrations');
  await page.goto(`${server.admin}/cluster`);
  await expect(map.locator('rect')).toHaveCount(1024);
  await look(page, 'cluster-two');
  under = false;
  await calls;
  expect(wrong).toEqual([]);
  check();
});

test('a migration is watched, paused and cancelled @pictures', async ({ page }) => {
  const check = watch(page, server.admin);
  for (let at = 0; at < 40; at += 1) await server.call(`shop/drawer/d${at}/fill`, [256 << 10]);
  const started = await fetch(`${server.admin}/v1/migrations`, {
    method: 'POST',
    body: JSON.stringify({ empty: 2, rate: 12_000, wait: false }),
  });
  expect(started.ok, await started.text()).toBe(true);
  await page.goto(`${server.admin}/migrations`);
  const under = page.getByRole('region', { name: /^Under way/ });
  await expect(under.getByText(/ a second for each worker/)).toBeVisible();
  await expect(under.getByText(/^[1-9][0-9,]* of [1-9][0-9,]*$/).first()).toBeVisible();
  await look(page, 'migration-under-way');
  await under.getByRole('button', { name: 'Pause' }).click();
  await under.getByRole('button', { name: 'Resume' }).click();
  await under.getByRole('button', { name: 'Cancel' }).click();
  await expect(under).toBeHidden();
  await expect(page.getByRole('region', { name: 'Ended migrations' }).getByText('cancelled').first()).toBeVisible();
  check();
});

test('workers tell together of a request that they share', async ({ page }) => {
  const items = Object.fromEntries(Array.from({ length: 6 }, (_, n) => [`k${n}`, 0]));
  for (const item of Object.keys(items)) await server.call(`shop/stock/${item}/put`, [10]);
  const { id } = await server.watched('shop/order/both/buy', [items]);
  await page.goto(`${server.admin}/requests/${id}`);
  const graph = page.getByRole('region', { name: /^Call graph/ }).last();
  await expect(graph.locator('rect.call')).toHaveCount(13);
  await expect(page.getByText('Worker 1', { exact: true }).first()).toBeVisible();
  await expect(page.getByText('Worker 2', { exact: true }).first()).toBeVisible();
  await look(page, 'request-cluster');
  await page.goto(`${server.admin}/logs`);
  await expect(page.getByRole('region', { name: 'Log lines' })).toContainText('both wants 6 kinds');
});

test('the form calls a function in a cluster, too', async ({ page }) => {
  await page.goto(`${server.admin}/apps/shop/stock/put`);
  await page.getByRole('textbox', { name: 'key' }).fill("it's");
  await page.getByRole('textbox', { name: 'pieces' }).fill('3');
  await page.getByRole('button', { name: 'Call' }).click();
  await expect(page.getByText('committed')).toBeVisible();
  await isAccessible(page);
});

test('the overview shows what gateways answer, and who is lost', async ({ page }) => {
  const check = watch(page, server.admin);
  await page.goto(server.admin);
  await expect(page.getByText('No calls since this page was opened.')).toBeVisible();
  await expect(async () => {
    await Promise.all(Array.from({ length: 8 }, (_, n) => server.call(`shop/stock/k${n}/put`, [n])));
    await server.call('shop/stock/k1/nothing', []);
    await expect(page.getByRole('img', { name: /^Latency/ })).toBeVisible({ timeout: 500 });
  }).toPass({ timeout: 30_000 });
  await expect(page.getByRole('row', { name: /UNKNOWN_FUNCTION [1-9]/ })).toBeVisible();
  await look(page, 'overview-cluster');
  await page.goto(`${server.admin}/cluster`);
  const processes = page.getByRole('region', { name: 'Processes' }).last();
  await expect(processes.getByRole('row')).toHaveCount(5);
  await expect(
    processes.getByRole('row', { name: /coordinator alive answers here .* it is the only one/ }),
  ).toBeVisible();
  await expect(processes.getByRole('row', { name: /gateway alive .* calls at http:/ })).toBeVisible();
  await server.killGateway();
  await expect(processes.getByRole('row', { name: /gateway lost/ })).toBeVisible({ timeout: 20_000 });
  await look(page, 'cluster-lost');
  await page.goto(server.admin);
  await expect(page.getByText(/is lost$/)).toBeVisible({ timeout: 20_000 });
  await expect(page.getByText(/its clients have to call another one/)).toBeVisible();
  check();
});
