// An app: called from its form, its state looked at, its versions changed.
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { promisify } from 'node:util';
import { expect, test } from '@playwright/test';
import { isAccessible, look, title, watch } from './pages';
import { BUNDLE, ROOMS, Server } from './server';

let server: Server;
test.beforeAll(async () => {
  server = await Server.single();
  await server.deploy('shop');
});
test.afterAll(() => server?.stop());

test('a function is called from its form', async ({ page }) => {
  const check = watch(page, server.admin);
  await page.goto(`${server.admin}/apps/shop`);
  await title(page, 'shop');
  await page.getByRole('link', { name: /^put\(/ }).click();
  await expect(page).toHaveURL(/\/apps\/shop\/stock\/put$/);
  await page.getByLabel('key', { exact: true }).fill('apple');
  await page.getByLabel('pieces').fill('5');
  await page.getByLabel('price').fill('30');
  await page.getByRole('button', { name: 'Call' }).click();
  await expect(page.getByText('committed', { exact: true })).toBeVisible();
  await look(page, 'app');
  // Arguments of every kind, and the result.
  await page.getByRole('link', { name: /^buy\(/ }).click();
  await page.getByLabel('key', { exact: true }).fill('o1');
  await page.getByLabel('items').fill('{"apple": 2}');
  await page.getByLabel('express').selectOption('true');
  await page.getByLabel('pay').selectOption('cash');
  await page.getByRole('button', { name: 'Call' }).click();
  await expect(page.locator('.result pre')).toHaveText('60');
  // What a function refuses, what is no JSON, and what the schema forbids.
  await page.getByLabel('items').fill('{"apple": 20}');
  await page.getByRole('button', { name: 'Call' }).click();
  await expect(page.getByRole('alert')).toContainText('not enough apple');
  await isAccessible(page);
  await page.getByLabel('items').fill('{"apple": ');
  await page.getByRole('button', { name: 'Call' }).click();
  await expect(page.getByText('items is no JSON')).toBeVisible();
  await page.getByLabel('items').fill('{"apple": "two"}');
  await page.getByRole('button', { name: 'Call' }).click();
  await expect(page.getByRole('alert').filter({ hasText: 'BAD_ARGUMENTS' })).toBeVisible();
  // Calls and their fuel are beside the function.
  await expect(page.locator('.figures-line').first()).toContainText(/fuel [1-9]/);
  // What it has left.
  await page.goto(`${server.admin}/state/shop/order/o1`);
  await expect(page.locator('.value-text pre')).toContainText('"pay": "cash"');
  await page.goto(`${server.admin}/state/shop/stock/apple`);
  await expect(page.locator('.value-text pre')).toContainText('"pieces": 3');
  await look(page, 'entity');
  check();
});

test('what is too much, or of another type, is refused, and the page goes on', async ({ page }) => {
  const check = watch(page, server.admin);
  await page.goto(`${server.admin}/apps/shop/drawer/keep`);
  await page.getByLabel('key', { exact: true }).fill('big');
  const value = page.getByLabel('value');
  await value.evaluate((input: HTMLTextAreaElement) => {
    // As a paste does it: to type so much takes minutes.
    const set = Object.getOwnPropertyDescriptor(HTMLTextAreaElement.prototype, 'value')!.set!;
    set.call(input, JSON.stringify('x'.repeat(3 << 20)));
    input.dispatchEvent(new Event('input', { bubbles: true }));
  });
  await page.getByRole('button', { name: 'Call' }).click();
  await expect(page.locator('.result').getByRole('alert')).toContainText(/TOO_LARGE|LIMIT_EXCEEDED/);
  expect((await fetch(`${server.admin}/v1/state/shop/drawer/big`)).status).toBe(404);
  await value.fill('7');
  await page.getByRole('button', { name: 'Call' }).click();
  await expect(page.locator('.result pre')).toHaveText('7');
  // A number is none that is a word: the form does not send it.
  await page.goto(`${server.admin}/apps/shop/stock/take`);
  await page.getByLabel('key', { exact: true }).fill('much');
  for (const bad of ['two', '1.5', '']) {
    await page.getByLabel('pieces').fill(bad);
    await page.getByRole('button', { name: 'Call' }).click();
    const why = await page.getByLabel('pieces').evaluate((input: HTMLInputElement) => input.validationMessage);
    expect(why, bad).not.toBe('');
  }
  await expect(page.locator('.result')).toHaveCount(0);
  check();
});

test('a bundle is dropped: what it would change is said, and nothing is done', async ({ page }) => {
  await page.goto(`${server.admin}/apps/shop`);
  const drop = page.locator('.drop');
  const give = async (name: string, bytes: Buffer) => {
    const data = await page.evaluateHandle(
      ([name, text]) => {
        const data = new DataTransfer();
        data.items.add(new File([Uint8Array.from(atob(text), char => char.charCodeAt(0))], name));
        return data;
      },
      [name, bytes.toString('base64')] as const,
    );
    await drop.dispatchEvent('dragover', { dataTransfer: data });
    await expect(drop).toHaveClass(/over/);
    await drop.dispatchEvent('drop', { dataTransfer: data });
    await expect(drop).not.toHaveClass(/over/);
  };
  await give('wrong.zip', Buffer.from('no archive'));
  await expect(page.getByRole('alert')).toBeVisible();
  await expect(page.getByRole('button', { name: /^Deploy/ })).toHaveCount(0);
  await give('shop.zip', await readFile(BUNDLE));
  await expect(page.getByText('It is what is live already.')).toBeVisible({ timeout: 90_000 });
  await expect(page.getByRole('alert')).toHaveCount(0);
  await look(page, 'app-dropped');
  await expect(page.getByRole('region', { name: 'Versions' }).getByRole('row')).toHaveCount(2);
});

test('what is gone meanwhile is said to be', async ({ page }) => {
  const check = watch(page, server.admin);
  await server.deploy('gone');
  await page.goto(`${server.admin}/apps/gone/stock/put`);
  await page.getByLabel('key', { exact: true }).fill('a');
  await page.getByLabel('pieces').fill('1');
  await page.getByRole('button', { name: 'Delete' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Type gone to confirm').fill('gone');
  expect((await fetch(`${server.admin}/v1/apps/gone`, { method: 'DELETE' })).ok).toBe(true);
  await dialog.getByRole('button', { name: 'Delete it and its state' }).click();
  await expect(dialog.getByRole('alert')).toContainText('UNKNOWN_APP');
  await dialog.getByRole('button', { name: 'Leave it' }).click();
  await page.getByRole('button', { name: 'Call' }).click();
  await expect(page.locator('.result').getByRole('alert')).toContainText('UNKNOWN_APP');
  await title(page, 'gone');
  check();
});

test('a call under the same key is made once', async ({ page }) => {
  await server.call('shop/stock/once/put', [10, 3]);
  await page.goto(`${server.admin}/apps/shop/stock/take`);
  await page.getByLabel('key', { exact: true }).fill('once');
  await page.getByLabel('pieces').fill('4');
  await page.getByRole('button', { name: 'Call' }).click();
  await expect(page.locator('.result pre')).toHaveText('12');
  await page.getByRole('button', { name: 'Send it again under this key' }).click();
  await expect(page.getByText('nothing has happened twice')).toBeVisible();
  await expect(page.locator('.result pre')).toHaveText('12');
  expect(await server.call('shop/stock/once/look', [])).toEqual({ pieces: 6, price: 3 });
  await look(page, 'app-once');
  // A fresh key for each call, unless one is given; other arguments under one that was used are refused.
  await page.getByRole('button', { name: 'Call' }).click();
  await expect.poll(() => server.call('shop/stock/once/look', [])).toEqual({ pieces: 2, price: 3 });
  await page.getByLabel('Idempotency key').fill('mine');
  await page.getByLabel('pieces').fill('1');
  for (let at = 0; at < 2; at += 1) {
    await page.getByRole('button', { name: 'Call' }).click();
    await expect(page.locator('.result')).toContainText('Sent under the key mine');
  }
  expect(await server.call('shop/stock/once/look', [])).toEqual({ pieces: 1, price: 3 });
  await page.getByLabel('pieces').fill('2');
  await page.getByRole('button', { name: 'Call' }).click();
  await expect(page.getByRole('alert')).toContainText('IDEMPOTENCY_MISMATCH');
});

test('programs call as the form does', async ({ page }) => {
  await page.goto(`${server.admin}/apps/shop/stock/put?language=curl`);
  await page.getByLabel('key', { exact: true }).fill("it's");
  await page.getByRole('textbox', { name: 'pieces' }).fill('7');
  await page.getByRole('textbox', { name: 'price' }).fill('2');
  await page.getByText('The same call from a program').click();
  const shown = page.locator('.snippets pre');
  await expect(shown).toContainText('curl -X POST');
  // As it is, with a key of this test's.
  const command = (await shown.textContent())!.replace('$(uuidgen)', 'snippet');
  await promisify(execFile)('bash', ['-c', command]);
  expect(await server.call("shop/stock/it's/look", [])).toEqual({ pieces: 7, price: 2 });
  for (const language of ['Shell', 'Python', 'TypeScript', 'Rust', 'Go', 'C'] as const) {
    await page.getByText(language, { exact: true }).click();
    await expect(page).toHaveURL(language === 'Shell' ? /put$/ : new RegExp(`language=${language}$`));
    await expect(shown).toContainText('7');
    await isAccessible(page);
  }
  await look(page, 'app-programs');
});

test('keys are found by what they begin with, a page at a time', async ({ page }) => {
  for (let at = 0; at < 60; at += 1) await server.call(`shop/stock/b${String(at).padStart(2, '0')}/put`, [at]);
  await server.call('shop/stock/c1/put', [1]);
  await page.goto(`${server.admin}/state`);
  await page.getByRole('link', { name: 'stock' }).click();
  await page.getByRole('searchbox').fill('b');
  await page.getByRole('searchbox').press('Enter');
  await expect(page).toHaveURL(/prefix=b$/);
  await expect(page.getByRole('row')).toHaveCount(51);
  await look(page, 'state');
  await page.getByRole('link', { name: 'Next page' }).click();
  await expect(page.getByRole('row')).toHaveCount(11);
  await expect(page.getByRole('link', { name: 'c1' })).toBeHidden();
  await page.goBack();
  await expect(page.getByRole('row')).toHaveCount(51);
  // All of them, of one epoch, whatever is shown.
  const saved = page.waitForEvent('download');
  await page.getByRole('button', { name: 'Export all' }).click();
  const file = await saved;
  expect(file.suggestedFilename()).toBe('shop-stock.ndjson');
  const lines = (await readFile((await file.path())!, 'utf8')).trim().split('\n');
  expect(lines.map(text => (JSON.parse(text) as { key: string }).key)).toEqual(
    expect.arrayContaining(['b00', 'b59', 'c1']),
  );
  await expect(page.getByText(/as of epoch .* were saved/)).toBeVisible();
  await look(page, 'export');
  await page.getByRole('link', { name: 'b07', exact: true }).click();
  await title(page, 'b07');
});

test('values and names of anybody are shown and do nothing', async ({ page }) => {
  const check = watch(page, server.admin);
  const html = `<img src=x onerror="document.title='owned'"><script>document.title='owned'</script>`;
  const hostile = [
    html,
    '\u202Eright to left',
    'שלום',
    'nul\u0000bell\u0007',
    '../../v1/apps',
    '%2e%2e',
    'a?b#c',
    '__proto__',
    '🦀'.repeat(40),
  ];
  for (const text of hostile)
    await server.call(`shop/drawer/${encodeURIComponent(text.replaceAll('\u0000', ''))}/keep`, [{ [text]: text }]);
  await server.call('shop/drawer/big/fill', [1_000_000]);
  await server.call('shop/drawer/deep/keep', [JSON.parse('['.repeat(60) + ']'.repeat(60))]);
  await page.goto(`${server.admin}/state/shop/drawer`);
  await expect(page.getByRole('row')).toHaveCount(hostile.length + 3);
  await expect(page.getByText('\\u202eright to left').first()).toBeVisible();
  await look(page, 'hostile');
  await page.getByRole('link', { name: '<img src=x' }).click();
  await expect(page.locator('.value-text pre')).toContainText('onerror');
  await expect(page).not.toHaveTitle('owned');
  await page.goto(`${server.admin}/state/shop/drawer`);
  for (const name of ['../../v1/apps', '%2e%2e', 'a?b#c', '__proto__']) {
    await page.getByRole('link', { name, exact: true }).click();
    await title(page, name);
    await expect(page.locator('.value-text pre')).toContainText(name);
    await page.reload();
    await title(page, name);
    await page.goBack();
  }
  await page.getByRole('link', { name: 'big', exact: true }).click();
  await page.getByRole('button', { name: 'Show all of it' }).click();
  await expect.poll(() => page.locator('.value-text pre').evaluate(pre => pre.textContent!.length)).toBe(1_000_002);
  check();
});

test('digits of long numbers are kept, on the way there and back', async ({ page }) => {
  const exact = '[12345678901234567890, 0.1234567890123456789, 1.0]';
  await page.goto(`${server.admin}/apps/shop/drawer/keep`);
  await page.getByLabel('key', { exact: true }).fill('digits');
  await page.getByLabel('value').fill('12345678901234567890');
  await page.getByRole('button', { name: 'Call' }).click();
  await expect(page.locator('.result pre')).toHaveText('12345678901234567890');
  await page.goto(`${server.admin}/state/shop/drawer/digits`);
  await expect(page.locator('.value-text pre')).toHaveText('12345678901234567890');
  expect(exact).toContain('12345678901234567890');
});

test('with another key prefix entities are placed anew if that is wanted, and back again', async ({ page }) => {
  // Another version is compiled.
  test.setTimeout(300_000);
  const check = watch(page, server.admin);
  await server.deploy('filing');
  const keys = ['a:1', 'a:2', 'b:1'];
  for (const key of keys) await server.call(`filing/drawer/${key}/keep`, [key]);
  const areThere = async () => {
    for (const key of keys) {
      const entity = (await (await fetch(`${server.admin}/v1/state/filing/drawer/${key}`)).json()) as {
        value: unknown;
      };
      expect(entity.value).toBe(key);
    }
  };
  await page.goto(`${server.admin}/apps/filing`);
  const versions = page.getByRole('region', { name: 'Versions' });
  await page.getByLabel('Bundle or component').setInputFiles(ROOMS);
  await expect(page.getByText('Keys of drawer get the prefix room: 3 entities')).toBeVisible({ timeout: 180_000 });
  const deploy = page.getByRole('button', { name: 'Deploy filing', exact: true });
  await expect(deploy).toBeDisabled();
  await look(page, 'app-rekeyed');
  await expect(versions.getByRole('row')).toHaveCount(2);
  await page.getByLabel('Place them anew').check();
  await deploy.click();
  await expect(versions.getByRole('row')).toHaveCount(3, { timeout: 180_000 });
  await expect(page.getByText('keys room:…')).toBeVisible();
  await areThere();
  await page.getByRole('button', { name: 'Roll back to it' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByRole('button', { name: 'Activate', exact: true }).click();
  await expect(dialog.getByRole('alert')).toContainText('KEY_PREFIX_CHANGED');
  await expect(dialog.getByRole('alert')).toContainText('its 3 entities');
  await isAccessible(page);
  await dialog.getByRole('button', { name: 'Activate it, and place entities anew' }).click();
  await expect(dialog).toBeHidden();
  await expect(versions.getByRole('row').nth(2)).toContainText('in force');
  await expect(page.getByText('keys room:…')).toHaveCount(0);
  await areThere();
  check();
});

test('versions are rolled back, and an app is deleted by its name', async ({ page }) => {
  await server.deploy('other');
  await server.deploy('other');
  await server.call('other/drawer/d/keep', [1]);
  await page.goto(`${server.admin}/apps/other`);
  const versions = page.getByRole('region', { name: 'Versions' });
  await expect(versions.getByRole('row')).toHaveCount(3);
  const before = await versions.getByRole('row').nth(2).locator('code').textContent();
  await page.getByRole('button', { name: 'Roll back to it' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Activate' }).click();
  await expect(versions.getByRole('row').nth(2)).toContainText('in force');
  expect(((await (await fetch(`${server.admin}/v1/apps/other`)).json()) as { active: string }).active).toBe(before);
  await page.getByRole('button', { name: 'Delete' }).click();
  const dialog = page.getByRole('dialog');
  const really = dialog.getByRole('button', { name: 'Delete it and its state' });
  await expect(really).toBeDisabled();
  // What is lost is named.
  await expect(dialog.getByRole('row', { name: /^drawer .* 1 entity$/ })).toBeVisible();
  await expect(dialog.getByRole('row', { name: /^stock .* 0 entities$/ })).toBeVisible();
  await look(page, 'app-delete');
  await page.keyboard.press('Escape');
  await expect(dialog).toBeHidden();
  await page.getByRole('button', { name: 'Delete' }).click();
  await dialog.getByLabel('Type other to confirm').fill('other');
  await really.click();
  await title(page, 'Apps');
  expect((await fetch(`${server.admin}/v1/apps/other`)).status).toBe(404);
});

test('the overview shows calls as they come @pictures', async ({ page }) => {
  // Seven pages are looked at, each three times.
  test.setTimeout(300_000);
  await page.goto(server.admin);
  await title(page, 'Overview');
  let under = true;
  const calls = (async () => {
    for (let at = 0; under; at += 1) {
      const keys = Array.from({ length: 16 }, (_, n) => `i${(at * 7 + n) % 200}`);
      await Promise.all(
        keys.map((key, n) =>
          server.call(
            `shop/stock/${key}/${n % 9 === 0 ? 'look' : n % 7 === 0 ? 'take' : 'put'}`,
            n % 9 === 0 ? [] : [n % 7 === 0 ? 1000 : at],
          ),
        ),
      );
    }
  })();
  await expect(page.getByText(/requests a second commit, half of them within/)).toBeVisible({ timeout: 40_000 });
  await expect(page.getByRole('cell', { name: 'ABORTED' })).toBeVisible();
  await page.waitForTimeout(12_000);
  await look(page, 'overview');
  // Looking for what is not accessible takes a processor of its own.
  under = false;
  await calls;
  for (const name of ['cluster', 'snapshots', 'apps', 'access', 'migrations', 'quarantine']) {
    await page.goto(`${server.admin}/${name}`);
    await expect(page.locator('.loading')).toHaveCount(0);
    await page.waitForTimeout(300);
    await look(page, name);
  }
});

test('a snapshot is taken', async ({ page }) => {
  await server.call('shop/stock/new/put', [1]);
  await page.goto(`${server.admin}/snapshots`);
  await page.getByRole('button', { name: 'Take one now' }).click();
  // If nothing has happened since the one that the server took meanwhile, it says so.
  await expect(page.getByText(/^Snapshot \d+ of epoch \d+ exists$|NO_SNAPSHOT/)).toBeVisible();
  const newest = page.getByRole('region', { name: 'Snapshots' }).getByRole('row').nth(1);
  await expect(newest).toBeVisible();
  // How to go back to it.
  const sequence = (await newest.getByRole('cell').first().textContent())!;
  // Every byte of it is read.
  await page.getByRole('button', { name: `Verify snapshot ${sequence}` }).click();
  const whole = new RegExp(`^Snapshot ${sequence} is whole: [\\d,]+ entr(y|ies), [\\d,.]+ \\S+ were read$`);
  await expect(page.getByText(whole)).toBeVisible();
  await page.getByLabel('To which snapshot').selectOption(sequence);
  await expect(
    page.getByText(new RegExp(`^styx snapshots restore ${sequence} --data-dir .styx --store /`)),
  ).toBeVisible();
  await isAccessible(page);
});

test('a snapshot that is old while there is something to keep is marked', async ({ page }) => {
  await page.clock.setFixedTime(Date.now() + 600_000);
  await page.goto(`${server.admin}/snapshots`);
  await expect(async () => {
    await server.call('shop/stock/new/put', [2]);
    await expect(page.locator('.figure .old')).toHaveText('10 min ago', { timeout: 1000 });
  }).toPass({ timeout: 30_000 });
});

test('a keyboard is enough', async ({ page }) => {
  await page.goto(server.admin);
  await title(page, 'Overview');
  await page.keyboard.press('Tab');
  await expect(page.getByRole('link', { name: 'Skip to the content' })).toBeFocused();
  for (let at = 0; at < 3; at += 1) await page.keyboard.press('Tab');
  await expect(page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Apps' })).toBeFocused();
  await page.keyboard.press('Enter');
  await title(page, 'Apps');
  await expect(page.getByRole('heading', { level: 1 })).toBeFocused();
});
