// A cluster that is to have another number of partitions.
import { expect, test, type Page } from '@playwright/test';
import { isAccessible, title, watch } from './pages';
import { Server } from './server';

let server: Server;
test.beforeAll(async () => {
  server = await Server.cluster(2);
  await server.deploy('shop');
});
test.afterAll(() => server?.stop());

/** The page, once both workers have as many of the first 1,024 partitions. */
async function open(page: Page) {
  await page.goto(`${server.admin}/migrations`);
  await title(page, 'Migrations');
  const map = page.getByRole('img', { name: /^Partitions by worker/ });
  await expect(map).toHaveAttribute('aria-label', /worker 1 has 512, worker 2 has 512$/, { timeout: 90_000 });
  await page.getByLabel('Another number of partitions').check();
  const wanted = page.getByRole('spinbutton', { name: /^Partitions/ });
  const ask = async (partitions: string) => {
    await wanted.fill(partitions);
    await page.getByRole('button', { name: 'Plan' }).click();
  };
  return { map, wanted, ask, dialog: page.getByRole('dialog') };
}

const total = async () => {
  const { total } = (await (await fetch(`${server.admin}/v1/partitions?limit=1`)).json()) as { total: number };
  return total;
};

test('a number of partitions that cannot be is refused, and it is said why', async ({ page }) => {
  const check = watch(page, server.admin);
  const { wanted, ask, dialog } = await open(page);
  await ask('1500');
  await expect(page.getByText('1500 partitions: there can be 1024, as at the beginning, or a multiple')).toBeVisible();
  await isAccessible(page);
  await ask('1024');
  await expect(page.getByText('there are 1024 partitions already')).toBeVisible();
  // The form itself does not send what is no such number.
  for (const bad of ['', '0', '-1024', '65537', '1024.5']) {
    await ask(bad);
    expect(await wanted.evaluate((input: HTMLInputElement) => input.validationMessage), bad).not.toBe('');
  }
  await expect(dialog).toBeHidden();
  // Whoever sends it otherwise is told, too.
  for (const partitions of [0, 1500, 65_536 + 1024, -1, 1.5, 'many']) {
    const body = JSON.stringify({ partitions });
    const response = await fetch(`${server.admin}/v1/migrations`, { method: 'POST', body });
    const { error } = (await response.json()) as { error: { message: string } };
    expect(response.status, `${body}: ${error.message}`).toBe(400);
    expect(error.message).not.toContain('\n');
  }
  expect(await total()).toBe(1024);
  check();
});

test('there are more partitions, planned first, and then as few as before', async ({ page }) => {
  const check = watch(page, server.admin);
  for (let at = 0; at < 200; at += 1) await server.call(`shop/stock/r${at}/put`, [at]);
  const { map, ask, dialog } = await open(page);
  const history = page.getByRole('region', { name: 'History' });
  await ask('2048');
  await expect(dialog.getByRole('heading', { name: 'Have 2,048 partitions?' })).toBeVisible();
  await expect(dialog.getByText('Each worker divides what it has; nothing goes to another one.')).toBeVisible();
  await expect(dialog.getByRole('cell', { name: '512 → 1,024' })).toHaveCount(2);
  await isAccessible(page);
  // It was a plan: nothing is otherwise yet.
  expect(await total()).toBe(1024);
  await dialog.getByRole('button', { name: 'Leave it' }).click();
  await expect(dialog).toBeHidden();
  expect(await total()).toBe(1024);
  await ask('2048');
  await dialog.getByRole('button', { name: 'Start' }).click();
  await expect(history.getByRole('row', { name: /done 2,048 partitions/ })).toBeVisible({ timeout: 90_000 });
  await expect(map).toHaveAttribute('aria-label', /worker 1 has 1024, worker 2 has 1024$/);
  expect(await total()).toBe(2048);
  for (let at = 0; at < 200; at += 1) {
    expect(await server.call(`shop/stock/r${at}/look`, []), `r${at}`).toMatchObject({ pieces: at });
  }
  await page.getByLabel('Another number of partitions').check();
  await ask('1024');
  await dialog.getByRole('button', { name: 'Start' }).click();
  await expect(history.getByRole('row', { name: /done 1,024 partitions/ })).toBeVisible({ timeout: 90_000 });
  await expect(map).toHaveAttribute('aria-label', /worker 1 has 512, worker 2 has 512$/);
  expect(await server.call('shop/stock/r7/look', [])).toMatchObject({ pieces: 7 });
  check();
});
