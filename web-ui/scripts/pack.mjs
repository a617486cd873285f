// Compresses what the build has made, once, so that the server sends it as it is.
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';

const assets = new URL('../dist/assets/', import.meta.url);
let bytes = 0;
for (const name of readdirSync(assets)) {
  const file = new URL(name, assets);
  const packed = gzipSync(readFileSync(file), { level: 9 });
  writeFileSync(new URL(`${name}.gz`, assets), packed);
  rmSync(file);
  bytes += packed.length;
  console.log(`${String(packed.length).padStart(8)}  ${name}`);
}
console.log(`${String(bytes).padStart(8)}  in all`);
