// Runs the tests of src/lib, which need no browser: vite reads them as it reads what is built.
import { readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { runnerImport } from 'vite';

const tests = fileURLToPath(new URL('../tests/unit/', import.meta.url));
for (const name of readdirSync(tests)) await runnerImport(`${tests}${name}`, { configFile: false, logLevel: 'warn' });
