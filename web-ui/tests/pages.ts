// What every page must be: without errors, without serious barriers, as narrow as a telephone.
import AxeBuilder from '@axe-core/playwright';
import { expect, type Page } from '@playwright/test';

const SHOTS = new URL('../test-results/', import.meta.url).pathname;

/** Fails with what a page says is wrong, and with whatever it asks of somebody else. */
export function watch(page: Page, own: string): () => void {
  const wrong: string[] = [];
  page.on('pageerror', error => wrong.push(error.message));
  page.on('console', message => {
    if (message.type() !== 'error') return;
    // A browser notes each answer that is an error; those are what some tests are for.
    if (!message.text().startsWith('Failed to load resource')) wrong.push(message.text());
  });
  page.on('request', request => {
    if (new URL(request.url()).origin !== own) wrong.push(`asks ${request.url()}`);
  });
  return () => expect(wrong).toEqual([]);
}

/** Serious findings of axe, and what is wider than the window. */
export async function isAccessible(page: Page): Promise<void> {
  const { violations } = await new AxeBuilder({ page }).analyze();
  const serious = violations.filter(({ impact }) => impact === 'serious' || impact === 'critical');
  expect(serious.map(({ id, nodes }) => `${id}: ${nodes.map(node => node.html).join(' ')}`)).toEqual([]);
  const overflow = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
  expect(overflow, 'the page is wider than the window').toBeLessThanOrEqual(0);
}

/** Looks at a page light, dark and narrow, and keeps pictures of it. */
export async function look(page: Page, name: string): Promise<void> {
  const wide = { width: 1360, height: 900 };
  for (const [variant, colorScheme, viewport] of [
    ['light', 'light', wide],
    ['dark', 'dark', wide],
    ['narrow', 'light', { width: 390, height: 844 }],
  ] as const) {
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
    await page.setViewportSize(viewport);
    await isAccessible(page);
    // What stays beside the page, however far it is scrolled, is as high as all of it.
    const height = await page.evaluate(() => document.documentElement.scrollHeight);
    await page.setViewportSize({ ...viewport, height });
    await page.screenshot({ path: `${SHOTS}${name}-${variant}.png`, fullPage: true });
  }
  await page.emulateMedia({ colorScheme: 'light' });
  await page.setViewportSize(wide);
}

export const title = (page: Page, name: string) => expect(page.getByRole('heading', { level: 1 })).toHaveText(name);
