// What pages take: bytes, time until something is seen, and with very much to show.
import { availableParallelism, loadavg } from 'node:os';
import { expect, test, type Page } from '@playwright/test';
import { look } from './pages';
import { Server } from './server';

let server: Server;
test.beforeAll(async () => {
  server = await Server.single(undefined, '--partitions', '65536');
  await server.deploy('shop');
});
test.afterAll(() => server?.stop());

/** The least of a few: the machine may do something else meanwhile. */
async function least(times: number, of: () => Promise<number>): Promise<number> {
  const all: number[] = [];
  for (let at = 0; at < times; at += 1) all.push(await of());
  return Math.min(...all);
}

/** A machine that has more to do than it has processors is slower by as much. */
const slack = () => Math.max(1, (2 * loadavg()[0]!) / availableParallelism());

test('the first page is small, and seen within a second', async ({ browser }) => {
  let bytes = 0;
  const paint = await least(3, async () => {
    const context = await browser.newContext();
    const page = await context.newPage();
    await page.goto(server.admin);
    await expect(page.getByRole('heading', { level: 1 })).toHaveText('Overview');
    const [first, loaded] = await page.evaluate(() => {
      const entries = [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')];
      const all = (entries as PerformanceResourceTiming[]).filter(({ name }) => !name.includes('/v1/'));
      const paint = performance.getEntriesByName('first-contentful-paint')[0]!;
      return [paint.startTime, all.reduce((sum, entry) => sum + entry.transferSize, 0)] as const;
    });
    bytes = loaded;
    await context.close();
    return first;
  });
  console.log(`  first paint after ${Math.round(paint)} ms, ${bytes} bytes`);
  expect(bytes).toBeGreaterThan(50_000);
  expect(bytes).toBeLessThanOrEqual(350_000);
  expect(paint).toBeLessThan(1000 * slack());
});

/** So many are loaded to be measured: as `STYX_UI_ENTITIES` says, or as many as can be there within some seconds. */
const WANTED = Number(process.env.STYX_UI_ENTITIES ?? 0);
/** Where they are: many come from an app that is quick. */
const [APP, OPERATOR, FUNCTION] = WANTED ? ['accounts', 'account', 'insert'] : ['shop', 'stock', 'put'];

test('an operator with very many entities opens at once', async ({ page }) => {
  test.setTimeout(120_000 + WANTED);
  if (WANTED) await server.deploy(APP, '../guests/ycsb');
  const began = Date.now();
  let [begun, entities] = [0, 0];
  const load = async () => {
    while (WANTED ? begun < WANTED : Date.now() < began + 15_000) {
      const from = begun;
      begun += 5000;
      const calls = Array.from({ length: 5000 }, (_, n) => ({
        id: n,
        app: APP,
        operator: OPERATOR,
        key: `k${from + n}`,
        function: FUNCTION,
        args: [n],
      }));
      // Not in one expression, which would read the sum before the others have added to it.
      const loaded = await server.batch(calls);
      entities += loaded;
    }
  };
  await Promise.all([load(), load(), load()]);
  console.log(`  ${entities} entities: loaded within ${Math.round((Date.now() - began) / 1000)} s`);
  expect(entities).toBeGreaterThan(5000);
  await page.goto(`${server.admin}/state`);
  const rows = page.getByRole('region', { name: 'Entities' }).getByRole('row');
  const open = async () => {
    await page.goto(`${server.admin}/state`);
    await expect(page.getByRole('link', { name: OPERATOR, exact: true })).toBeVisible();
    const took = await page.evaluate(async operator => {
      const link = [...document.querySelectorAll('main a')].find(({ textContent }) => textContent === operator);
      const started = performance.now();
      (link as HTMLAnchorElement).click();
      while (document.querySelectorAll('main tbody tr').length < 50) await new Promise(requestAnimationFrame);
      return performance.now() - started;
    }, OPERATOR);
    await expect(rows).toHaveCount(51);
    return took;
  };
  const took = await least(5, open);
  console.log(`  ${entities} entities: the page of their operator opens in ${Math.round(took)} ms`);
  expect(took).toBeLessThan(300 * slack());
  // The server's part of it, and pages far from the first. Each address is a new one: nothing is in the browser yet.
  for (const [name, from] of [
    ['first', ''],
    ['half-way', 'k5'],
    ['late', 'k8'],
  ] as const) {
    let at = 0;
    const after = () => (from ? `${from}${at++}` : '');
    const asked = await least(5, async () => (await entries(after())).took);
    console.log(`  ${entities} entities: the ${name} page is answered in ${asked.toFixed(1)} ms`);
    expect(asked).toBeLessThan(300 * slack());
    if (!from) continue;
    const shown = await least(5, () => turn(page, after()));
    console.log(`  ${entities} entities: the ${name} page is shown in ${Math.round(shown)} ms`);
    expect(shown).toBeLessThan(300 * slack());
  }
});

/** A page of entities as the admin API gives it: its first key, and how long that took. */
async function entries(after: string): Promise<{ key: string; took: number }> {
  const query = new URLSearchParams({ limit: '50', ...(after && { after }) });
  const started = performance.now();
  const response = await fetch(`${server.admin}/v1/state/${APP}/${OPERATOR}?${query}`);
  const { entries } = (await response.json()) as { entries: { key: string }[] };
  const took = performance.now() - started;
  expect(entries).toHaveLength(50);
  return { key: entries[0]!.key, took };
}

/** Turns to the page after a key; how long until its first row is there. */
async function turn(page: Page, after: string): Promise<number> {
  const { key } = await entries(after);
  return page.evaluate(
    async ([to, key]) => {
      const started = performance.now();
      history.pushState(null, '', to);
      while (document.querySelector('main tbody a')?.textContent !== key) await new Promise(requestAnimationFrame);
      return performance.now() - started;
    },
    [`/state/${APP}/${OPERATOR}?after=${after}`, key] as const,
  );
}

test('a map of 65,536 partitions is drawn, and told', async ({ page }) => {
  await page.goto(`${server.admin}/cluster?colour=size`);
  const map = page.getByRole('img', { name: 'Partitions by worker: worker 1 has 65536' });
  await expect(map).toBeVisible();
  await expect(page.getByText('Stronger cells hold more bytes.')).toBeVisible();
  expect(await colours(page)).toBeGreaterThan(3);
  await map.focus();
  await page.keyboard.press('End');
  await expect(page.getByText('Partition 65535, worker 1')).toBeVisible();
  await page.getByText('Load', { exact: true }).click();
  await expect(page).toHaveURL(/colour=load$/);
  await page.getByText('As a table').click();
  await expect(page.getByRole('region', { name: 'Partitions', exact: true }).last().getByRole('row')).toHaveCount(51);
  await page.getByRole('button', { name: 'Those after' }).click();
  await expect(page.getByText('51 to 100 of 65,536')).toBeVisible();
  await look(page, 'cluster-65536');
});

test('a thousand functions are found by name, and 64 workers are told apart', async ({ page }) => {
  // As a server would tell it that has them.
  await page.route('**/v1/apps/shop', async route => {
    const response = await route.fetch();
    const app = (await response.json()) as { operators: { name: string; functions: { name: string }[] }[] };
    const [first] = app.operators;
    const many = Array.from({ length: 1000 }, (_, n) => ({ ...first!.functions[0]!, name: `f${n}` }));
    await route.fulfill({ response, json: { ...app, operators: [{ ...first!, functions: many }] } });
  });
  await page.goto(`${server.admin}/apps/shop`);
  const functions = page.locator('.signature');
  await expect(page.getByText('960 more functions: look for them by name.')).toBeVisible();
  await expect(functions).toHaveCount(40);
  await page.getByLabel('Find by name').fill('f99');
  await expect(functions).toHaveCount(11);
  await page.getByRole('link', { name: /^f997\(/ }).click();
  await expect(page).toHaveURL(/\/f997\?find=f99$/);
  await expect(page.getByRole('heading', { name: '.f997' })).toBeVisible();
  await expect(functions).toHaveCount(11);
  await page.reload();
  await expect(page.getByLabel('Find by name')).toHaveValue('f99');
  await look(page, 'app-1000');
  await page.route('**/v1/workers', async route => {
    const response = await route.fetch();
    const { workers } = (await response.json()) as { workers: object[] };
    const many = Array.from({ length: 64 }, (_, n) => ({ ...workers[0], worker: n + 1, partitions: 1024 }));
    await route.fulfill({ response, json: { workers: many } });
  });
  await page.route('**/v1/nodes', async route => {
    const response = await route.fetch();
    const { nodes } = (await response.json()) as { nodes: object[] };
    const many = Array.from({ length: 64 }, (_, n) => ({
      ...nodes[0],
      name: `worker-${n + 1}`,
      node: `w${n + 1}`,
      role: 'worker',
      worker: n + 1,
    }));
    await route.fulfill({ response, json: { nodes: [...nodes, ...many] } });
  });
  await page.route('**/v1/partitions?*', async route => {
    const response = await route.fetch();
    const all = (await response.json()) as { partitions: { partition: number }[] };
    const partitions = all.partitions.map(one => ({ ...one, worker: (one.partition >> 10) + 1 }));
    await route.fulfill({ response, json: { ...all, partitions } });
  });
  await page.goto(`${server.admin}/cluster`);
  await expect(page.getByRole('region', { name: 'Workers' }).getByRole('row')).toHaveCount(65);
  await expect(page.getByRole('region', { name: 'Processes' }).last().getByRole('row')).toHaveCount(66);
  await expect(page.getByRole('img', { name: /worker 64 has 1024$/ })).toBeVisible();
  await page.getByRole('button', { name: /^worker 64 / }).click();
  await expect(page).toHaveURL(/\/cluster\?alone=64$/);
  await page.reload();
  await expect(page.getByRole('button', { name: /^worker 64 / })).toHaveAttribute('aria-pressed', 'true');
  // So many rows are in a box: the map is not far down.
  const map = await page.getByRole('img', { name: /Partitions by worker/ }).boundingBox();
  expect(map!.y).toBeLessThan(1500);
  const edge = await page.getByRole('region', { name: 'Partitions' }).first().boundingBox();
  expect(edge!.x + edge!.width - map!.x - map!.width, 'up to the edge').toBeLessThan(24);
  await look(page, 'cluster-64');
});

/** How many colours the map has. */
const colours = (page: Page) =>
  page.evaluate(() => {
    const canvas = document.querySelector('.cells canvas') as HTMLCanvasElement;
    const { data } = canvas.getContext('2d')!.getImageData(0, 0, canvas.width, canvas.height);
    return new Set(new Uint32Array(data.buffer)).size;
  });
