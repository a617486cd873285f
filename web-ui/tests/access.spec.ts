// A server that asks for tokens.
import { expect, test } from '@playwright/test';
import { isAccessible, look, title, watch } from './pages';
import { Server } from './server';

const OPERATOR = 'the operator of this test';
let server: Server;
test.beforeAll(async () => {
  server = await Server.single(OPERATOR);
  await server.deploy('shop');
});
test.afterAll(() => server?.stop());

test('a token is asked for, and kept for the tab', async ({ page, context }) => {
  const check = watch(page, server.admin);
  await page.goto(`${server.admin}/access`);
  await expect(page.getByText('This server asks for a token')).toBeVisible();
  await look(page, 'sign-in');
  await page.getByLabel('Token').fill('not the right one');
  await page.getByRole('button', { name: 'Go on' }).click();
  await expect(page.getByRole('alert')).toContainText('UNAUTHENTICATED');
  await page.getByLabel('Token').fill(OPERATOR);
  await page.getByRole('button', { name: 'Go on' }).click();
  await title(page, 'Access');
  await expect(page.getByText('You are “admin”')).toBeVisible();
  await page.reload();
  await title(page, 'Access');
  // A token is issued, shown once, and revoked.
  await page.getByLabel('Name, for people').fill('<b>till</b>');
  await page.getByRole('checkbox', { name: /^invoke/ }).check();
  await page.getByRole('button', { name: 'Issue', exact: true }).click();
  const shown = page.locator('.notice pre');
  await expect(shown).toHaveText(/^styx_/);
  const token = (await shown.textContent())!;
  const row = page.getByRole('row', { name: /till/ });
  await expect(row).toContainText('<b>till</b>');
  await look(page, 'access-tokens');
  const asked = () => fetch(`${server.admin}/v1/apps`, { headers: { authorization: `Bearer ${token}` } });
  expect((await asked()).status).toBe(200);
  await row.getByRole('button', { name: 'Revoke' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Revoke' }).click();
  await expect(row).toBeHidden();
  expect((await asked()).status).toBe(401);
  // Who has done that, and what.
  const changes = page.getByRole('region', { name: 'Who has changed what' }).last();
  await expect(changes.getByRole('row', { name: /admin 127\.0\.0\.1 DELETE \/v1\/tokens\/\S+ 200$/ })).toBeVisible();
  await expect(changes.getByRole('row', { name: /admin 127\.0\.0\.1 POST \/v1\/tokens 20\d$/ })).toBeVisible();
  await expect(changes.getByRole('row', { name: / (GET|HEAD) / })).toHaveCount(0);
  // Another tab knows nothing of it.
  const other = await context.newPage();
  await other.goto(server.admin);
  await expect(other.getByText('This server asks for a token')).toBeVisible();
  check();
});

test('of two who press at once one is told that it was done', async ({ page, context }) => {
  await context.addInitScript(token => sessionStorage.setItem('styx.token', token), OPERATOR);
  await server.issue('twice', ['read']);
  const other = await context.newPage();
  for (const one of [page, other]) {
    await one.goto(`${server.admin}/access`);
    await one.getByRole('row', { name: /twice/ }).getByRole('button', { name: 'Revoke' }).click();
    await expect(one.getByRole('dialog')).toBeVisible();
  }
  const revoke = (one: typeof page) => one.getByRole('dialog').getByRole('button', { name: 'Revoke' }).click();
  await revoke(page);
  await expect(page.getByRole('dialog')).toBeHidden();
  await revoke(other);
  await expect(other.getByRole('dialog').getByRole('alert')).toContainText('UNKNOWN_TOKEN');
  await other.getByRole('dialog').getByRole('button', { name: 'Leave it' }).click();
  await expect(other.getByRole('row', { name: /twice/ })).toBeHidden();
});

test('who may only look sees, and cannot press', async ({ page }) => {
  const token = await server.issue('viewer', ['read']);
  await page.addInitScript(token => sessionStorage.setItem('styx.token', token), token);
  await page.goto(`${server.admin}/apps/shop/stock/put`);
  await expect(page.getByRole('button', { name: /^Call/ })).toBeDisabled();
  await expect(page.getByRole('button', { name: /^Delete/ })).toBeDisabled();
  await expect(page.getByRole('button', { name: /^Choose a file/ })).toBeDisabled();
  await isAccessible(page);
  await page.goto(`${server.admin}/snapshots`);
  await expect(page.getByRole('button', { name: /^Take one now/ })).toBeDisabled();
  await page.goto(`${server.admin}/access`);
  await expect(page.getByText('Tokens are shown to those who may issue them')).toBeVisible();
});

test('a token that expires while a page is open is asked for anew', async ({ page }) => {
  const token = await server.issue('short', ['read'], '4s');
  await page.goto(server.admin);
  await page.getByLabel('Token').fill(token);
  await page.getByRole('button', { name: 'Go on' }).click();
  await title(page, 'Overview');
  await expect(page.getByText('This server asks for a token')).toBeVisible({ timeout: 60_000 });
});
