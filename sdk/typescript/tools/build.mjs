/**
 * Makes a component of a project: `node build.mjs DIRECTORY ENTRY --sdk DIR --wit DIR -o FILE`.
 *
 * It checks the types, takes schemas from them, bundles the project with the SDK, and packs QuickJS
 * with what came of it. What is wrong is said in one line on standard error that begins with `error: `.
 */

import fs from "node:fs";
import path from "node:path";
import { parseArgs } from "node:util";
import { componentize } from "componentize-qjs";

import { bundle } from "./bundle.mjs";
import { BuildFailure } from "./failure.mjs";
import { programOf } from "./program.mjs";
import { typesOf } from "./types.mjs";

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: { sdk: { type: "string" }, wit: { type: "string" }, output: { type: "string", short: "o" } },
});

try {
  await build(fs.realpathSync(positionals[0]), positionals[1]);
} catch (error) {
  const line = error instanceof BuildFailure ? error.message : `the build itself failed: ${error?.stack ?? error}`.replace(/\s+/g, " ");
  process.stderr.write(`error: ${line}\n`);
  process.exitCode = 1;
}

async function build(directory, entry) {
  const sdk = fs.realpathSync(options.sdk);
  const file = path.join(directory, entry);
  const program = programOf(directory, sdk, [file]);
  const types = typesOf(program, directory, sdk);

  // The lines of this text do not move when the tables are filled in, so that the map stays true.
  const text = [
    `import { start } from "styx-sdk/component";`,
    `import { originFinder } from "styx-sdk/origin";`,
    `import ${JSON.stringify(file)};`,
    `const { describe, invoke } = start(STYX_TYPES, originFinder(STYX_LINES));`,
    `export { describe, invoke };`,
  ].join("\n");
  const { code, lines } = await bundle({ directory, sdk, text, component: true });
  const filled = code.replace("STYX_TYPES", () => JSON.stringify(types)).replace("STYX_LINES", () => JSON.stringify(lines));

  let made;
  try {
    made = await componentize({ witPath: options.wit, jsSource: filled, world: "function", sync: true, stubWasi: false });
  } catch (error) {
    throw new BuildFailure(explain(String(error?.message ?? error), lines));
  }
  fs.writeFileSync(options.output, made.component);
}

/** An exception of the project's modules while they were loaded: where, and what. */
function explain(text, { files, lines }) {
  const places = [...text.matchAll(/user\.js:(\d+):\d+/g)].map(([, line]) => lines[Number(line) - 1]);
  const place = places.find(Boolean);
  const first = text.split("\n").map((line) => line.trim()).find((line) => /\w/.test(line) && !line.startsWith("at ")) ?? text;
  const message = first.replace(/^.*?((?:[A-Z]\w*)?Error: )/, "$1").replace(/^DefinitionError: |^Error: /, "");
  return place ? `${files[place[0]]}:${place[1]}: ${message}` : message;
}
