/**
 * Makes one module of a project: `node build.mjs DIRECTORY ENTRY --sdk DIR -o FILE`.
 *
 * It checks the types, takes schemas from them, and bundles the project with the SDK. The file is `{"code", "lines"}`: what the
 * engine loads, and where its lines come from. What is wrong is said in one line on standard error that begins with `error: `, behind those
 * about what is wrong besides.
 *
 * `node build.mjs --stay` builds what it is asked for by lines of standard input, until that ends:
 * `{"directory", "entry", "sdk", "output"}`. When it is done, it writes a line that begins with `styx-build: `,
 * and then `{}` or `{"error": …}`.
 */

import fs from "node:fs";
import path from "node:path";
import readline from "node:readline";
import { parseArgs } from "node:util";

import { bundle } from "./bundle.mjs";
import { BuildFailure } from "./failure.mjs";
import { programOf } from "./program.mjs";
import { typesOf } from "./types.mjs";

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: { sdk: { type: "string" }, output: { type: "string", short: "o" }, stay: { type: "boolean" } },
});

if (options.stay) {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const error = await attempt(JSON.parse(line));
    process.stdout.write(`styx-build: ${JSON.stringify({ error })}\n`);
  }
} else {
  const [directory, entry] = positionals;
  const error = await attempt({ directory, entry, ...options });
  if (error !== undefined) {
    process.stderr.write(`error: ${error}\n`);
    process.exitCode = 1;
  }
}

/** Builds; what is wrong, in a line. */
async function attempt(request) {
  try {
    await build(request);
  } catch (error) {
    for (const line of error?.others ?? []) process.stderr.write(`${line}\n`);
    return error instanceof BuildFailure ? error.message : `the build itself failed: ${error?.stack ?? error}`.replace(/\s+/g, " ");
  }
}

async function build(request) {
  const [directory, sdk] = [fs.realpathSync(request.directory), fs.realpathSync(request.sdk)];
  process.chdir(directory);
  const file = path.join(directory, request.entry);
  const program = programOf(directory, sdk, [file]);
  const types = typesOf(program, directory, sdk);

  // The lines of this text do not move when the tables are filled in, so that the map stays true.
  const text = [
    `import { start } from "styx-sdk/component";`,
    `import { originFinder } from "styx-sdk/origin";`,
    `import ${JSON.stringify(file)};`,
    `start(STYX_TYPES, originFinder(STYX_LINES));`,
  ].join("\n");
  const { code, lines } = await bundle({ directory, sdk, text, component: true });
  const filled = code.replace("STYX_TYPES", () => JSON.stringify(types)).replace("STYX_LINES", () => JSON.stringify(lines));

  fs.writeFileSync(request.output, JSON.stringify({ code: filled, lines }));
}
