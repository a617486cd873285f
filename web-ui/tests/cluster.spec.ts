// A cluster of two workers, of which one is emptied while calls go on.
import { expect, test, type Page } from '@playwright/test';
import { isAccessible, look, title, watch } from './pages';
import { Server } from './server';

let server: Server;
test.beforeAll(async () => {
  server = await Server.cluster(2, '--autoscale', '1..3', '--autoscale-interval', '500ms');
  await server.deploy('shop');
});
test.afterAll(() => server?.stop());

/** Calls that go on until they are stopped; the answers that were not what they should be. */
function load(): { stop: () => Promise<unknown[]> } {
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
  return {
    stop: async () => {
      under = false;
      await calls;
      return wrong;
    },
  };
}

/** A chart with figures in it. */
const LONGEST = /^Longest epoch of each \d+ s: .* [0-9.]+ (µs|ms|s)$/;
const LATENCY = /^Latency: p50 [0-9.]+ (µs|ms|s), p99 [0-9.]+ (µs|ms|s)$/;

async function migrate(wanted: object): Promise<void> {
  const response = await fetch(`${server.admin}/v1/migrations`, { method: 'POST', body: JSON.stringify(wanted) });
  expect(response.ok, await response.text()).toBe(true);
}

test('partitions are moved under load @pictures', async ({ page }) => {
  const check = watch(page, server.admin);
  const calls = load();
  await page.goto(`${server.admin}/cluster`);
  await expect(page.getByRole('region', { name: 'Workers' }).getByRole('row')).toHaveCount(3);
  const map = page.getByRole('img', { name: /Partitions by worker/ });
  // A worker that was there later has its share by a migration of its own.
  await expect(map).toHaveAttribute('aria-label', /worker 1 has \d+, worker 2 has \d+/, { timeout: 90_000 });
  const moves = Number(/worker 2 has (\d+)/.exec((await map.getAttribute('aria-label')) ?? '')?.[1]);
  await page.getByRole('link', { name: 'Move partitions' }).click();
  await title(page, 'Migrations');
  await page.getByLabel('Empty a worker').check();
  await page.getByLabel('Worker to empty').selectOption('2');
  const dialog = page.getByRole('dialog');
  const history = page.getByRole('region', { name: 'History' });
  await page.getByRole('button', { name: 'Plan' }).click();
  await expect(dialog.getByRole('heading', { name: new RegExp(`^Move ${moves} partitions?\\?$`) })).toBeVisible();
  // Few are enough where few are written to; the page has commas in its thousands.
  const before = (1024 - moves).toLocaleString('en');
  await expect(dialog.getByRole('cell', { name: `${before} → 1,024` })).toBeVisible();
  await dialog.getByRole('button', { name: 'Start' }).click();
  await expect(history.getByRole('row', { name: new RegExp(`done worker 2 → 1: ${moves}`) })).toBeVisible({
    timeout: 90_000,
  });
  await expect(map).toHaveAttribute('aria-label', /worker 1 has 1024$/);
  // A plan for which nothing has to move says so; one that cannot be is refused.
  await page.getByLabel('Scale to so many workers').check();
  await page.getByLabel('Workers, of 2').fill('1');
  await page.getByRole('button', { name: 'Plan' }).click();
  await expect(page.getByText('Nothing has to move')).toBeVisible();
  await page.getByLabel('Most that each worker copies').fill('many');
  await page.getByRole('button', { name: 'Plan' }).click();
  await expect(page.getByText('The limit is a number of MiB a second')).toBeVisible();
  await look(page, 'migrations-plan');
  await page.getByLabel('Most that each worker copies').fill('64');
  await page.getByLabel('Even shares').check();
  await page.getByLabel('Shares are even by').selectOption('partitions');
  await page.getByRole('button', { name: 'Plan' }).click();
  await dialog.getByRole('button', { name: 'Start' }).click();
  await expect(history.getByRole('row', { name: /done worker 1 → 2/ }).first()).toBeVisible({ timeout: 90_000 });
  await expect(map).toHaveAttribute('aria-label', /worker 1 has \d+, worker 2 has \d+$/);
  await look(page, 'cluster-migrations');
  await page.goto(`${server.admin}/cluster`);
  await look(page, 'cluster-two');
  expect(await calls.stop()).toEqual([]);
  check();
});

test('a migration is watched, paused and cancelled @pictures', async ({ page }) => {
  const check = watch(page, server.admin);
  for (let at = 0; at < 40; at += 1) await server.call(`shop/drawer/d${at}/fill`, [256 << 10]);
  const calls = load();
  await migrate({ empty: 2, rate: 12_000, wait: false });
  await page.goto(`${server.admin}/migrations`);
  const under = page.getByRole('region', { name: /^Under way/ });
  await expect(under.getByText(/ a second for each worker/)).toBeVisible();
  await expect(under.getByText(/^[1-9][0-9,]* of [1-9][0-9,]*$/).first()).toBeVisible();
  // What it costs those who call, as it goes on.
  await expect(under.getByRole('img', { name: LONGEST })).toBeVisible();
  await expect(under.getByRole('img', { name: LATENCY })).toBeVisible();
  // Since when it runs, how long, and how long it will, though nothing new comes of it for a while.
  await expect(under.getByText(/^Online\. Began at \d\d:\d\d:\d\d, has run for /)).toBeVisible();
  const runs = async () => Number(/has run for ([0-9.]+) s/.exec((await under.textContent()) ?? '')?.[1] ?? 0);
  await expect.poll(runs, { timeout: 30_000 }).toBeGreaterThan(8);
  await expect(under.getByText(/about [0-9.]+ (s|min)/)).toBeVisible();
  // Somebody else is told that it is under way, and who has planned meanwhile what became of it.
  const again = await fetch(`${server.admin}/v1/migrations`, { method: 'POST', body: '{"balance": true}' });
  expect([again.status, await again.text()]).toEqual([409, expect.stringContaining('MIGRATION_UNDER_WAY')]);
  await look(page, 'migration-under-way');
  await under.getByRole('button', { name: 'Pause' }).click();
  await under.getByRole('button', { name: 'Resume' }).click();
  await under.getByRole('button', { name: 'Cancel' }).click();
  await expect(under).toBeHidden();
  const ended = page.getByRole('region', { name: 'Ended migrations' }).getByRole('row');
  await expect(ended.nth(1)).toContainText(/cancelled.*copying [0-9.]+ s.*paused .* (s|ms|µs).*Online/);
  // The same is there once it has ended, also for who comes later.
  await ended
    .nth(1)
    .getByRole('button', { name: /^How mg_\d+_\d+ went$/ })
    .click();
  await expect(page).toHaveURL(/\/migrations\?went=mg_\d+_\d+$/);
  await page.reload();
  await expect(ended.nth(2).getByRole('img', { name: LONGEST })).toBeVisible();
  await expect(ended.nth(2).getByRole('img', { name: LATENCY })).toBeVisible();
  expect(await calls.stop()).toEqual([]);
  check();
});

test('of two who start a migration at once the second is told', async ({ page, context }) => {
  const other = await context.newPage();
  for (const one of [page, other]) {
    await one.goto(`${server.admin}/migrations`);
    await one.getByLabel('Empty a worker').check();
    await one.getByLabel('Worker to empty').selectOption('2');
    await one.getByLabel('Most that each worker copies').fill('0.01');
    await one.getByRole('button', { name: 'Plan' }).click();
    await expect(one.getByRole('dialog').getByRole('button', { name: 'Start' })).toBeVisible();
  }
  const start = (one: Page) => one.getByRole('dialog').getByRole('button', { name: 'Start' }).click();
  await start(page);
  await expect(page.getByRole('region', { name: /^Under way/ })).toBeVisible();
  await start(other);
  await expect(other.getByRole('dialog').getByRole('alert')).toContainText(/MIGRATION_UNDER_WAY|PLACEMENT_CHANGED/);
  await other.getByRole('dialog').getByRole('button', { name: 'Leave it' }).click();
  await expect(other.getByRole('region', { name: /^Under way/ })).toBeVisible();
  await other.getByRole('button', { name: 'Cancel' }).click();
  await expect(page.getByRole('region', { name: /^Under way/ })).toBeHidden();
});

test('how each of the methods went is in the history', async ({ page }) => {
  const check = watch(page, server.admin);
  const calls = load();
  await migrate({ only: [1] });
  await migrate({ balance: true, by: 'partitions', mode: 'immediate' });
  await migrate({ only: [1], mode: 'stop-and-restart' });
  await migrate({ balance: true, by: 'partitions' });
  await page.goto(`${server.admin}/migrations`);
  const rows = page.getByRole('region', { name: 'Ended migrations' }).getByRole('row');
  await expect(rows.nth(1)).toContainText(/done.*worker 1 → 2.*copying .* (s|ms|µs).*Online/);
  await expect(rows.nth(2)).toContainText(/done.*everything at rest .* (s|ms).*Stop and restart/);
  await expect(rows.nth(3)).toContainText(/done.*worker 1 → 2.*Immediate/);
  // And beside one another what calls took.
  for (const at of [3, 1])
    await rows
      .nth(at)
      .getByRole('button', { name: / went$/ })
      .click();
  await expect(rows.nth(2).getByRole('img', { name: LATENCY })).toBeVisible();
  await expect(rows.nth(5).getByRole('img', { name: LATENCY })).toBeVisible();
  await expect(page.locator('.during')).toHaveCount(4);
  await expect(page.getByText('the last of it is still to come')).toHaveCount(0, { timeout: 30_000 });
  await look(page, 'migrations-history');
  await rows
    .nth(1)
    .getByRole('button', { name: / went$/ })
    .click();
  await expect(page.locator('.during')).toHaveCount(2);
  expect(await calls.stop()).toEqual([]);
  check();
});

test('a plan that somebody has made is in its address', async ({ page }) => {
  await page.goto(`${server.admin}/migrations?goal=moves&moves=3%2C17-20&worker=2&mode=immediate&limit=8&alone=2`);
  await expect(page.getByLabel('Move partitions that I name')).toBeChecked();
  await expect(page.getByRole('textbox', { name: 'Partitions' })).toHaveValue('3,17-20');
  await expect(page.getByLabel('Worker that is to have them')).toHaveValue('2');
  await expect(page.getByLabel('When they change their worker')).toHaveValue('immediate');
  await expect(page.getByLabel('Most that each worker copies')).toHaveValue('8');
  const alone = page.getByRole('button', { name: /^worker 2 / });
  await expect(alone).toHaveAttribute('aria-pressed', 'true');
  await alone.click();
  await page.getByLabel('All to workers that I choose').check();
  await page.getByRole('group', { name: 'Workers that are to have all' }).getByLabel('1').uncheck();
  await page.getByLabel('Most that each worker copies').fill('');
  await page.getByLabel('Shares are even by').selectOption('partitions');
  const query = { goal: 'only', moves: '3,17-20', worker: '2', mode: 'immediate', only: '2', by: 'partitions' };
  await expect(page).toHaveURL(({ searchParams }) => {
    const found = Object.fromEntries(searchParams);
    return JSON.stringify(Object.entries(found).sort()) === JSON.stringify(Object.entries(query).sort());
  });
  await page.reload();
  await expect(page.getByRole('group', { name: 'Workers that are to have all' }).getByLabel('1')).not.toBeChecked();
  // A worker that is not there any more is no choice.
  await page.goto(`${server.admin}/migrations?goal=empty&worker=9`);
  await expect(page.getByLabel('Worker to empty')).toHaveValue('1');
});

const SECONDS = 4;

/** Times between frames of a page, in milliseconds, the shortest first. */
async function frames(page: Page): Promise<number[]> {
  await page.bringToFront();
  return page.evaluate(async seconds => {
    const took: number[] = [];
    let last = await new Promise(requestAnimationFrame);
    for (const until = last + seconds * 1000; last < until;) {
      const now = await new Promise(requestAnimationFrame);
      took.push(now - last);
      last = now;
    }
    return took.sort((a, b) => a - b);
  }, SECONDS);
}

const median = (sorted: number[]): number => sorted[Math.floor(sorted.length / 2)]!;

test('a thousand partitions that move leave the page its sixty frames a second', async ({ page }) => {
  await migrate({ only: [1] });
  await migrate({ only: [2], rate: 5_000, wait: false });
  await page.goto(`${server.admin}/cluster`);
  await expect(page.getByRole('img', { name: /1024 are moving/ })).toBeVisible();
  // What the page itself has to do meanwhile is a small part of a processor, whatever else the machine does.
  const session = await page.context().newCDPSession(page);
  await session.send('Performance.enable', { timeDomain: 'threadTicks' });
  const busy = async () => {
    const { metrics } = await session.send('Performance.getMetrics');
    return metrics.find(({ name }) => name === 'TaskDuration')!.value;
  };
  const before = await busy();
  const moving = await frames(page);
  const share = ((await busy()) - before) / SECONDS;
  // A page that has nothing in it shows what there is to be had.
  const empty = await page.context().newPage();
  const most = await frames(empty);
  await empty.close();
  const told = (all: number[]) =>
    `${(all.length / SECONDS).toFixed(1)} a second, half within ${median(all).toFixed(1)} ms`;
  console.log(
    `  1,024 partitions moving: frames ${told(moving)}; of an empty page ${told(most)}; ` +
      `${(100 * share).toFixed(0)} % of a processor`,
  );
  expect(share).toBeLessThan(0.5);
  expect(median(moving)).toBeLessThan(2 * median(most) + 17);
  await look(page, 'cluster-moving');
  expect((await fetch(`${server.admin}/v1/migrations`, { method: 'DELETE' })).ok).toBe(true);
  await expect(page.getByRole('img', { name: /are moving/ })).toBeHidden();
  await migrate({ balance: true, by: 'partitions' });
});

test('what the autoscaler wants is told, and why', async ({ page }) => {
  await page.goto(`${server.admin}/migrations`);
  const autoscaler = page.getByRole('region', { name: 'Autoscaler', exact: true });
  await expect(autoscaler).toContainText('proposes');
  await expect(autoscaler).toContainText('It wants 1 to 3 workers.');
  // Nobody calls: one is enough.
  await expect(autoscaler.getByRole('row', { name: /2 → 1/ }).first()).toBeVisible({ timeout: 60_000 });
  await look(page, 'autoscaler');
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
  await page.getByRole('textbox', { name: 'key', exact: true }).fill("it's");
  await page.getByRole('textbox', { name: 'pieces' }).fill('3');
  await page.getByRole('button', { name: 'Call' }).click();
  await expect(page.getByText('committed')).toBeVisible();
  await isAccessible(page);
});

test('a partition that has most of the load is told of', async ({ page }) => {
  let under = true;
  const calls = (async () => {
    const one = Array.from({ length: 200 }, (_, n) => ({ key: 'hot', n }));
    while (under) {
      await server.batch(
        one.map(({ key, n }) => ({ app: 'shop', operator: 'stock', key, function: 'put', args: [n] })),
      );
    }
  })();
  await page.goto(server.admin);
  const told = page.getByText(/^Partition \d+ has \d+ % of the load$/);
  await expect(told).toBeVisible({ timeout: 60_000 });
  await expect(page.getByText(/Most calls of that time were to shop\/stock\./)).toBeVisible();
  await look(page, 'overview-hot');
  await page.getByRole('link', { name: 'All partitions' }).click();
  await title(page, 'Cluster');
  under = false;
  await calls;
});

test('a worker that is killed is told of, and when it is back', async ({ page }) => {
  const check = watch(page, server.admin);
  await page.goto(`${server.admin}/cluster`);
  await expect(page.getByRole('img', { name: /worker 2 has 512$/ })).toBeVisible();
  await server.killWorker(2);
  // The coordinator has the other one take over what it had.
  await expect(page.getByText(/^1 worker, generation \d+$/)).toBeVisible({ timeout: 60_000 });
  await expect(page.getByRole('img', { name: /^Partitions by worker: worker 1 has 1024$/ })).toBeVisible();
  await expect(page.getByRole('region', { name: 'Workers' }).getByRole('row')).toHaveCount(2);
  await look(page, 'cluster-worker-lost');
  expect(await server.call('shop/stock/after/put', [1])).toBe(null);
  await server.beginWorker(2);
  await expect(page.getByText(/^2 workers, generation \d+$/)).toBeVisible({ timeout: 60_000 });
  await expect(page.getByRole('region', { name: 'Workers' }).getByText('alive')).toHaveCount(2);
  check();
});

test('a coordinator that stands by is shown as such', async ({ page }) => {
  // It takes a log that outlives machines: what the one that leads would tell of it is put into what it tells.
  await page.route('**/v1/nodes', async route => {
    const response = await route.fetch();
    const { nodes } = (await response.json()) as { nodes: object[] };
    const standby = { ...nodes[0], name: 'two', node: '00000000c0ffee02', silent_ms: 3000, leads: null };
    await route.fulfill({ response, json: { nodes: [nodes[0], { ...standby, admin: '10.0.0.2:9070' }] } });
  });
  await page.goto(`${server.admin}/cluster`);
  const processes = page.getByRole('region', { name: 'Processes' }).last();
  await expect(processes.getByRole('row', { name: /^coordinator coordinator alive answers here/ })).toBeVisible();
  await expect(
    processes.getByRole('row', {
      name: /^two coordinator, stands by alive 3.0 s ago .* leads if need be, at 10.0.0.2:9070$/,
    }),
  ).toBeVisible();
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
