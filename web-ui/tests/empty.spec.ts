// A server on which nothing is deployed, and which is lost and found.
import { expect, test } from '@playwright/test';
import { isAccessible, look, title, watch } from './pages';
import { BUNDLE, BUYER, Server } from './server';

// What is uploaded is compiled behind everything else that a busy machine has to do.
test.describe.configure({ timeout: 300_000 });

let server: Server;
test.beforeEach(async () => {
  server = await Server.single();
});
test.afterEach(() => server.stop());

test('with no app it says what to do, and takes one', async ({ page }) => {
  const check = watch(page, server.admin);
  await page.goto(server.admin);
  await title(page, 'Overview');
  await expect(page.getByText('Serves 0 apps in one process')).toBeVisible();
  await expect(page.getByText('styx deploy shop')).toBeVisible();
  await look(page, 'empty-overview');
  for (const [name, heading] of [
    ['Apps', 'Apps'],
    ['State', 'State'],
    ['Cluster', 'Cluster'],
    ['Migrations', 'Migrations'],
    ['Snapshots', 'Snapshots'],
    ['Quarantine', 'Quarantine'],
    ['Access', 'Access'],
  ] as const) {
    await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name }).click();
    await title(page, heading);
    await isAccessible(page);
  }
  // What is no app is refused before anything changes; an app is checked, then deployed.
  await page.goto(`${server.admin}/apps`);
  const chosen = page.getByLabel('Bundle or component');
  await chosen.setInputFiles({ name: 'wrong.zip', mimeType: 'application/zip', buffer: Buffer.from('no archive') });
  await expect(page.getByRole('alert')).toBeVisible();
  await chosen.setInputFiles(BUNDLE);
  await expect(page.getByText('The app is new.')).toBeVisible();
  await expect(page.getByText('It can be deployed')).toBeVisible();
  expect(await (await fetch(`${server.admin}/v1/apps`)).json()).toEqual({ apps: [] });
  await page.getByLabel('Name of the app').fill('shop');
  await page.getByRole('button', { name: 'Deploy shop', exact: true }).click();
  // It is compiled first, which a busy machine takes its time for.
  await expect(page.getByRole('heading', { level: 1 })).toHaveText('shop', { timeout: 180_000 });
  check();
});

test('what others need, or an app lacks, is a matter of force', async ({ page }) => {
  await page.goto(`${server.admin}/apps`);
  await page.getByLabel('Bundle or component').setInputFiles(BUYER);
  // It is compiled first.
  await expect(page.getByRole('alert')).toContainText('UNMET_IMPORT', { timeout: 180_000 });
  await page.getByRole('button', { name: 'Deploy it all the same' }).click();
  const dialog = page.getByRole('dialog');
  const really = dialog.getByRole('button', { name: 'Deploy by force' });
  await expect(really).toBeDisabled();
  await isAccessible(page);
  await dialog.getByLabel('Type buyer to confirm').fill('buyer');
  await really.click();
  await expect(page.getByRole('heading', { level: 1 })).toHaveText('buyer', { timeout: 180_000 });
  await server.deploy('shop');
  await page.goto(`${server.admin}/apps/shop`);
  await page.getByRole('button', { name: 'Delete' }).click();
  await dialog.getByLabel('Type shop to confirm').fill('shop');
  await dialog.getByRole('button', { name: 'Delete it and its state' }).click();
  await expect(dialog.getByRole('alert')).toContainText('BROKEN_IMPORT');
  expect((await fetch(`${server.admin}/v1/apps/shop`)).status).toBe(200);
  await dialog.getByRole('button', { name: 'Delete it all the same' }).click();
  await title(page, 'Apps');
  expect((await fetch(`${server.admin}/v1/apps/shop`)).status).toBe(404);
});

test('a page says that the server is away, and goes on when it is back', async ({ page }) => {
  await page.goto(server.admin);
  await expect(page.getByText('Live', { exact: true })).toBeVisible();
  await server.kill();
  await expect(page.getByText('The server does not answer.')).toBeVisible();
  await isAccessible(page);
  // What is pressed now does not happen, and says so; what is shown stays.
  await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Snapshots' }).click();
  await page.getByRole('button', { name: 'Take one now' }).click();
  await expect(page.locator('main > [aria-live]').getByRole('alert')).toContainText('NO_CONNECTION');
  await title(page, 'Snapshots');
  await server.restart();
  await page.getByRole('button', { name: 'Now', exact: true }).click();
  await expect(page.getByText('Live', { exact: true })).toBeVisible();
  await expect(page.getByText('The server does not answer.')).toBeHidden();
});

test('addresses that lead nowhere say so', async ({ page }) => {
  await page.goto(`${server.admin}/nowhere/at/all`);
  await title(page, 'There is no such page');
  await page.goto(`${server.admin}/apps/absent`);
  await expect(page.getByRole('alert')).toContainText('UNKNOWN_APP');
  await page.goto(`${server.admin}/state/absent/none/key`);
  await expect(page.getByRole('alert')).toContainText('UNKNOWN_APP');
});

test('colours are as the system has them, until somebody says otherwise', async ({ page }) => {
  const ground = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
  await page.emulateMedia({ colorScheme: 'light' });
  await page.goto(server.admin);
  const light = await ground();
  await page.getByLabel('Colours').selectOption('Dark');
  await expect.poll(ground).not.toBe(light);
  const dark = await ground();
  await isAccessible(page);
  await page.reload();
  await expect(page.getByLabel('Colours')).toHaveValue('dark');
  expect(await ground()).toBe(dark);
  await page.getByLabel('Colours').selectOption('As the system');
  await expect.poll(ground).toBe(light);
  await page.emulateMedia({ colorScheme: 'dark' });
  await expect.poll(ground).toBe(dark);
  await page.getByLabel('Colours').selectOption('Light');
  await expect.poll(ground).toBe(light);
});

test('what needs attention is told on the overview', async ({ page }) => {
  const check = watch(page, server.admin);
  await page.goto(server.admin);
  await expect(page.getByText('Serves 0 apps in one process')).toBeVisible();
  await expect(page.locator('.notices .notice')).toHaveCount(0);
  // It takes a full disk, and requests that end servers: what the server would tell then is put into what it tells.
  await page.route('**/v1/attention', async route => {
    const response = await route.fetch();
    const disk = {
      kind: 'disk-nearly-full',
      urgent: false,
      title: 'The disk of <b>one</b> is nearly full',
      detail: '1.0 GiB of 100.0 GiB are free where its data directory is.',
      action: 'Free some space.',
    };
    await route.fulfill({ response, json: { attention: [disk] } });
  });
  const status = {
    ...{ generation: 1, live: true, workers: 1, catalog: 1, apps: 0, quarantined: 2, snapshots: 0 },
    ...{ disk_full: true, log_stalled: false, state_full: false, full_apps: [] },
  };
  await page.route('**/v1/events', route =>
    route.fulfill({ contentType: 'text/event-stream', body: `event: status\ndata: ${JSON.stringify(status)}\n\n` }),
  );
  await page.goto(server.admin);
  await expect(page.getByRole('alert').getByText('The disk of the log is nearly full')).toBeVisible();
  await expect(page.getByText('The disk of <b>one</b> is nearly full')).toBeVisible();
  await expect(page.getByText('1.0 GiB of 100.0 GiB are free')).toBeVisible();
  await expect(page.getByText('2 requests and apps set aside')).toBeVisible();
  await look(page, 'overview-attention');
  await page.getByRole('link', { name: 'Look at them' }).click();
  await title(page, 'Quarantine');
  check();
});
