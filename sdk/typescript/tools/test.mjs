/**
 * Runs a project's tests: `node test.mjs [DIRECTORY] [FILE...]`, by default all `*.test.ts` and `*.test.js`.
 *
 * They are checked and bundled as a component is, so that what functions take is known to the host in
 * memory, and run by Node's own test runner.
 */

import { spawnSync } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";

import { bundle } from "./bundle.mjs";
import { BuildFailure } from "./failure.mjs";
import { programOf } from "./program.mjs";
import { typesOf } from "./types.mjs";

const sdk = path.dirname(path.dirname(fs.realpathSync(new URL(import.meta.url).pathname)));
const directory = fs.realpathSync(process.argv[2] ?? ".");

try {
  process.exitCode = await run(process.argv.slice(3));
} catch (error) {
  if (!(error instanceof BuildFailure)) throw error;
  for (const line of [...error.others, `error: ${error.message}`]) process.stderr.write(`${line}\n`);
  process.exitCode = 1;
}

async function run(named) {
  const files = (named.length > 0 ? named : found(directory)).map((file) => path.resolve(directory, file));
  if (files.length === 0) throw new BuildFailure(`${directory} has no tests: name them *.test.ts`);
  const types = typesOf(programOf(directory, sdk, files, { isTest: true }), directory, sdk, { isTest: true });
  const output = fs.mkdtempSync(path.join(os.tmpdir(), "styx-tests-"));
  try {
    const bundles = [];
    for (const file of files) {
      const { code, map } = await bundle({ directory, sdk, text: `import ${JSON.stringify(file)};`, component: false });
      const name = path.relative(directory, file).replaceAll(path.sep, "-").replace(/\.\w+$/, ".mjs");
      bundles.push(path.join(output, name));
      const first = `globalThis.styxTypes = ${JSON.stringify(types)};`;
      fs.writeFileSync(bundles.at(-1), `${first}\n${code}\n//# sourceMappingURL=${name}.map\n`);
      map.mappings = `;${map.mappings}`; // below the first line
      fs.writeFileSync(`${bundles.at(-1)}.map`, JSON.stringify(map));
    }
    // What fails is shown with its place in the project, not in the bundle.
    const flags = ["--enable-source-maps", "--test", "--test-reporter=spec"];
    const ran = spawnSync(process.execPath, [...flags, ...bundles], { stdio: "inherit" });
    return ran.status ?? 1;
  } finally {
    fs.rmSync(output, { recursive: true });
  }
}

function found(directory) {
  const all = fs.readdirSync(directory, { recursive: true }).map(String);
  return all.filter((file) => /\.test\.m?[tj]s$/.test(file) && !file.split(path.sep).includes("node_modules")).sort();
}
