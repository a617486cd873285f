import { existsSync } from 'node:fs';
import { defineConfig } from '@playwright/test';

// The distribution's browser: the one that is tested with is installed as everything else is.
const browsers = [process.env.CHROMIUM, '/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];
const executablePath = browsers.find(path => path && existsSync(path));

export default defineConfig({
  testDir: 'tests',
  testMatch: '*.spec.ts',
  outputDir: 'test-results/failures',
  timeout: 120_000,
  expect: { timeout: 20_000 },
  fullyParallel: false,
  workers: 2,
  forbidOnly: true,
  reporter: [['list']],
  use: {
    launchOptions: { executablePath, args: ['--no-sandbox', '--disable-dev-shm-usage'] },
    viewport: { width: 1360, height: 900 },
    colorScheme: 'light',
    trace: 'retain-on-failure',
  },
});
