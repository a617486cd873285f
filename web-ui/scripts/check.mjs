// What is committed is what its sources make: types of the API, the built console. Licences are permissive.
import { execFileSync } from 'node:child_process';
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gunzipSync } from 'node:zlib';

const root = fileURLToPath(new URL('..', import.meta.url));
const wrong = [];
const run = (program, ...args) =>
  execFileSync(join(root, 'node_modules/.bin', program), args, { cwd: root, stdio: ['ignore', 'pipe', 'inherit'] });

// Types.
const scratch = mkdtempSync(join(tmpdir(), 'styx-console-'));
try {
  run('openapi-typescript', 'src/api/openapi.json', '-o', join(scratch, 'schema.d.ts'));
  if (readFileSync(join(scratch, 'schema.d.ts'), 'utf8') !== readFileSync(join(root, 'src/api/schema.d.ts'), 'utf8')) {
    wrong.push('src/api/schema.d.ts is not what openapi.json says: npm run types');
  }

  // The built console: names hold a hash of the content, so the same names are the same console.
  cpSync(join(root, 'dist'), join(scratch, 'dist'), { recursive: true });
  run('tsc', '--noEmit');
  run('vite', 'build', '--logLevel', 'warn', '--outDir', join(scratch, 'built'), '--emptyOutDir');
  const built = read(join(scratch, 'built'));
  const committed = read(join(scratch, 'dist'));
  for (const name of new Set([...built.keys(), ...committed.keys()])) {
    if (!built.get(name)?.equals(committed.get(name) ?? Buffer.alloc(0))) {
      wrong.push(`dist/${name} is not what the sources make: npm run build`);
    }
  }
} finally {
  rmSync(scratch, { recursive: true });
}

function read(directory) {
  const files = new Map();
  for (const entry of readdirSync(directory, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    const path = join(entry.parentPath, entry.name);
    const bytes = readFileSync(path);
    const name = path.slice(directory.length + 1);
    files.set(name.replace(/\.gz$/, ''), name.endsWith('.gz') ? gunzipSync(bytes) : bytes);
  }
  return files;
}

// Licences: what is shipped, and what only builds and tests.
const permissive = [
  'MIT',
  'ISC',
  'BSD-2-Clause',
  'BSD-3-Clause',
  '0BSD',
  'Apache-2.0',
  'Unlicense',
  'CC0-1.0',
  'BlueOak-1.0.0',
  'Python-2.0',
  '(MIT OR CC0-1.0)',
];
// Weak copyleft of tools, none of which is in what is shipped.
const tools = { 'MPL-2.0': ['@axe-core/playwright', 'axe-core', 'lightningcss'], 'CC-BY-4.0': ['caniuse-lite'] };
const { packages } = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8'));
for (const [path, { license, dev, devOptional, resolved }] of Object.entries(packages)) {
  if (path === '') continue;
  const name = path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length);
  const isTool = (dev || devOptional) && tools[license]?.some(known => name === known || name.startsWith(`${known}-`));
  if (!permissive.includes(license) && !isTool) wrong.push(`${name}: licence ${license}`);
  if (resolved) wrong.push(`package-lock.json names a registry for ${name}: npm i with the .npmrc of this directory`);
}

run('prettier', '--check', '--log-level', 'warn', '.');
for (const line of wrong) console.error(line);
process.exit(wrong.length ? 1 : 0);
