// What goes wrong between a page and its server is said, and leaves the rest as it is.
import { expect, test, type Page } from '@playwright/test';
import { isAccessible, look, title, watch } from './pages';
import { Server } from './server';

const OPERATOR = 'the operator of this test';
let server: Server;
test.beforeAll(async () => {
  server = await Server.single(OPERATOR);
  await server.deploy('shop');
});
test.afterAll(() => server?.stop());

const signIn = (page: Page, token: string) =>
  page.addInitScript(token => sessionStorage.setItem('styx.token', token), token);

test('a page that fails says so, and all others go on', async ({ page }) => {
  await signIn(page, OPERATOR);
  // An answer of another shape, as a server of another release may give it.
  await page.route('**/v1/workers', route => route.fulfill({ json: { workers: {} } }));
  await page.goto(`${server.admin}/cluster`);
  await title(page, 'This page cannot be shown');
  await expect(page.getByRole('alert')).toContainText('Load it again');
  await look(page, 'page-failed');
  await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Apps' }).click();
  await title(page, 'Apps');
  await page.goBack();
  await title(page, 'This page cannot be shown');
  await page.unroute('**/v1/workers');
  await page.getByRole('button', { name: 'Load it again' }).click();
  await title(page, 'Cluster');
});

test('a server of another release than the page is told of', async ({ page }) => {
  await signIn(page, OPERATOR);
  await page.goto(`${server.admin}/apps`);
  await title(page, 'Apps');
  await expect(page.getByText('of another release')).toBeHidden();
  // The page of the release after this one loads another script.
  await page.route(`${server.admin}/`, async route => {
    const response = await route.fetch();
    const body = (await response.text()).replace(/index-[\w-]+\.js/, 'index-another0.js');
    await route.fulfill({ response, body });
  });
  await server.kill();
  await expect(page.getByText('The server does not answer.')).toBeVisible();
  await server.restart();
  await expect(page.getByText('The server is of another release than this page')).toBeVisible();
  await look(page, 'skew');
  await page.unroute(`${server.admin}/`);
  await page.getByRole('button', { name: 'Load it again' }).click();
  await title(page, 'Apps');
  await expect(page.getByText('Live', { exact: true })).toBeVisible();
  await expect(page.getByText('of another release')).toBeHidden();
});

test('what a token does not cover is named, and what it covers works', async ({ page }) => {
  await signIn(page, await server.issue('shop only', ['read', 'invoke'], null, ['shop']));
  await page.goto(`${server.admin}/cluster`);
  await expect(page.getByRole('alert').first()).toContainText('has no scope "read" on what concerns all apps');
  await expect(page.getByText('Nothing is told as it happens')).toBeVisible();
  await expect(page.getByText('The server does not answer.')).toBeHidden();
  await look(page, 'forbidden');
  await page.goto(`${server.admin}/apps/shop/stock/put`);
  await title(page, 'shop');
  await page.getByLabel('key', { exact: true }).fill('plum');
  await page.getByLabel('pieces').fill('1');
  await page.getByRole('button', { name: 'Call' }).click();
  await expect(page.getByText('committed', { exact: true })).toBeVisible();
  // A link could not show the token.
  const saved = page.waitForEvent('download');
  await page.getByRole('button', { name: 'OpenAPI' }).click();
  expect((await saved).suggestedFilename()).toBe('shop-openapi.json');
  await page.getByRole('link', { name: 'What the token covers' }).first().click();
  await expect(page.getByText('on shop')).toBeVisible();
});

test('who may only look cannot press anything that changes something', async ({ page }) => {
  await signIn(page, await server.issue('viewer', ['read']));
  for (const where of ['apps', 'apps/shop', 'state/shop/stock', 'migrations', 'snapshots', 'quarantine', 'access']) {
    await page.goto(`${server.admin}/${where}`);
    await expect(page.locator('.loading')).toHaveCount(0);
    for (const name of ['Delete', 'Choose a file', 'Take one now', 'Plan', 'Issue', 'Revoke', 'Release', 'Deploy']) {
      for (const button of await page.getByRole('button', { name, exact: false }).all()) {
        await expect(button, `${name} at ${where}`).toBeDisabled();
      }
    }
  }
  await page.goto(`${server.admin}/snapshots`);
  await expect(page.getByRole('button', { name: /^Take one now/ })).toHaveAttribute('title', /has no scope “operate”/);
});

test('what is set aside is shown, and let go', async ({ page }) => {
  await signIn(page, OPERATOR);
  // A request that ends servers is no part of an app of these tests; that one is set aside is tested with the server.
  let there = true;
  const one = {
    id: '01a221be1add7e79bb80d1537aced0e5',
    kind: 'request',
    app: 'shop',
    function: 'stock.<b>take</b>',
    reason: 'has ended the server 3 times\u202e',
    since: new Date(Date.now() - 3_600_000).toISOString(),
  };
  await page.route('**/v1/quarantine**', async route => {
    if (route.request().method() === 'GET') return route.fulfill({ json: { quarantined: there ? [one] : [] } });
    expect(route.request().url()).toMatch(new RegExp(`/v1/quarantine/${one.id}$`));
    there = false;
    return route.fulfill({ json: { released: true } });
  });
  await page.goto(`${server.admin}/quarantine`);
  const row = page.getByRole('region', { name: 'Set aside' }).getByRole('row').nth(1);
  await expect(row).toContainText('stock.<b>take</b>has ended the server 3 times\\u202e1 h ago');
  await look(page, 'quarantine-request');
  await row.getByRole('button', { name: 'Release' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Release' }).click();
  await expect(page.getByText('Nothing is set aside.')).toBeVisible();
});

test('on a slow network pages load, and do not fail', async ({ page }) => {
  const check = watch(page, server.admin);
  await signIn(page, OPERATOR);
  const network = await page.context().newCDPSession(page);
  await network.send('Network.enable');
  await network.send('Network.emulateNetworkConditions', {
    offline: false,
    latency: 800,
    downloadThroughput: 64 << 10,
    uploadThroughput: 32 << 10,
  });
  await page.goto(`${server.admin}/cluster`);
  await expect(page.getByText('Loading…').first()).toBeVisible();
  await expect(page.getByRole('alert')).toHaveCount(0);
  await expect(page.getByRole('region', { name: 'Workers' }).getByRole('row')).toHaveCount(2);
  for (const name of ['Apps', 'State', 'Requests', 'Snapshots'] as const) {
    await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name }).click();
    await title(page, name);
    await expect(page.locator('.loading')).toHaveCount(0);
    await expect(page.getByRole('alert')).toHaveCount(0);
  }
  await isAccessible(page);
  check();
});
