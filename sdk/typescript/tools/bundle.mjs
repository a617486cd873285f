/** A project and the SDK as one module, and where each of its lines comes from. */

import fs from "node:fs";
import path from "node:path";
import * as esbuild from "esbuild";

import { at, BuildFailure, isOfNode, ofNode } from "./failure.mjs";

/** Promises have to run while a function does, so whatever waits becomes a generator on the SDK's own promises. */
const SUPPORTED = { "async-await": false, "async-generator": false, "for-await": false, "top-level-await": false };

/** What QuickJS knows, apart from that. */
const TARGET = "es2022";

/** Bundles a module that is given as text. `map` is the source map, with whole paths. */
export async function bundle({ directory, sdk, text, component }) {
  let result;
  try {
    result = await esbuild.build({
      stdin: { contents: text, resolveDir: directory, sourcefile: "<entry>", loader: "js" },
      absWorkingDir: directory,
      bundle: true,
      write: false,
      format: "esm",
      platform: component ? "neutral" : "node",
      mainFields: ["module", "main"],
      conditions: ["styx", "module", "import"],
      target: component ? TARGET : "node20",
      supported: SUPPORTED,
      alias: {
        "styx-sdk": path.join(sdk, "src/index.ts"),
        "styx-sdk/testing": path.join(sdk, "src/testing.ts"),
        "styx-sdk/component": path.join(sdk, "src/component.ts"),
        "styx-sdk/origin": path.join(sdk, "src/origin.ts"),
      },
      external: component ? [] : ["node:*"],
      define: component ? { "process.env.NODE_ENV": '"production"' } : {},
      sourcemap: "external",
      sourcesContent: false,
      outdir: directory,
      keepNames: false,
      treeShaking: true,
      legalComments: "none",
      logLevel: "silent",
      tsconfigRaw: { compilerOptions: { target: "es2022", useDefineForClassFields: true, verbatimModuleSyntax: false } },
    });
  } catch (error) {
    if (!Array.isArray(error.errors) || error.errors.length === 0) throw error;
    const [first, ...others] = error.errors.map((each) => lineOf(directory, each));
    throw new BuildFailure(first, others);
  }
  const bundled = result.outputFiles.find((file) => !file.path.endsWith(".map")).text;
  // Where this machine has the SDK is not in a component: the same sources are the same bytes everywhere.
  const code = `\n${bundled}`.replaceAll(`\n// ${path.relative(directory, sdk)}/`, "\n// styx-sdk/").slice(1);
  const map = JSON.parse(result.outputFiles.find((file) => file.path.endsWith(".map")).text);
  const lines = linesOf(map, sdk, directory);
  map.sources = map.sources.map((source) => path.resolve(directory, source));
  return { code, lines, map };
}

function lineOf(directory, { text, location }) {
  const missing = /^Could not resolve "([^"]+)"/.exec(text);
  if (missing) {
    text = isOfNode(missing[1])
      ? ofNode(missing[1])
      : `cannot find "${missing[1]}": add it to package.json and run \`npm install\``;
  }
  const native = /^No loader is configured for "\.node" files: (.*)/.exec(text);
  if (native) text = `${native[1]} is native code, which a component cannot load: take a package in JavaScript`;
  if (/[Tt]op-level await/.test(text)) text = "await outside of a function has nothing to wait for: modules are loaded when the component is built";
  if (!location || location.file === "<entry>") return text;
  return at(directory, path.resolve(directory, location.file), location.line, text);
}

/** The source's file and line for each line of the bundle; nothing for the SDK's own. */
function linesOf(map, sdk, directory) {
  const isOwn = map.sources.map((source) => {
    const file = path.resolve(directory, source);
    // The text that was given is no file.
    return fs.existsSync(file) && !file.startsWith(`${sdk}/`);
  });
  const lines = [];
  let source = 0;
  let line = 0;
  for (const segments of map.mappings.split(";")) {
    let found = null;
    for (const segment of segments === "" ? [] : segments.split(",")) {
      const [, inSource = 0, inLine = 0] = decode(segment);
      source += inSource;
      line += inLine;
      if (segment.length > 1 && isOwn[source]) found ??= [source, line + 1];
    }
    lines.push(found);
  }
  return { files: map.sources.map((source, at) => (isOwn[at] ? source : "")), lines };
}

const DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/** The numbers of a segment of a source map. */
function decode(segment) {
  const numbers = [];
  let value = 0;
  let shift = 0;
  for (const character of segment) {
    const digit = DIGITS.indexOf(character);
    value |= (digit & 31) << shift;
    shift += 5;
    if (digit & 32) continue;
    numbers.push(value & 1 ? -(value >>> 1) : value >>> 1);
    value = 0;
    shift = 0;
  }
  return numbers;
}
