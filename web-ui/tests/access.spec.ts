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
  // Another tab knows nothing of it.
  const other = await context.newPage();
  await other.goto(server.admin);
  await expect(other.getByText('This server asks for a token')).toBeVisible();
  check();
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
