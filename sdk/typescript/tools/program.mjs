/** The project as the TypeScript compiler sees it, and what it finds wrong. */

import { isUtf8 } from "node:buffer";
import fs from "node:fs";
import path from "node:path";
import ts from "typescript";

import { at, BuildFailure, isOfNode, ofNode } from "./failure.mjs";

/** What a project gets that says nothing. */
const DEFAULTS = {
  strict: true,
  target: ts.ScriptTarget.ES2022,
  lib: ["lib.es2023.d.ts"],
  types: [],
};

/** What cannot be otherwise in a component. */
const FIXED = {
  module: ts.ModuleKind.ESNext,
  moduleResolution: ts.ModuleResolutionKind.Bundler,
  allowImportingTsExtensions: true,
  resolveJsonModule: true,
  esModuleInterop: true,
  allowJs: true,
  noEmit: true,
  declaration: false,
  declarationMap: false,
  composite: false,
  incremental: false,
  emitDeclarationOnly: false,
  skipLibCheck: true,
  rootDir: undefined,
  outDir: undefined,
};

/** The program of some entry modules; throws what is wrong with it. */
export function programOf(directory, sdk, entries, { isTest = false } = {}) {
  const own = ownOptions(directory);
  const options = { ...DEFAULTS, ...own, ...FIXED };
  options.paths = {
    ...own.paths,
    "styx-sdk": [path.join(sdk, "src/index.ts")],
    "styx-sdk/testing": [path.join(sdk, "src/testing.ts")],
  };
  if (isTest) {
    // Tests run in Node.js.
    options.types = ["node"];
    options.typeRoots = [path.join(sdk, "tools/node_modules/@types")];
  } else {
    // `tsconfig.json` has them for an editor, which knows one program for functions and their tests.
    options.types = options.types.filter((name) => name !== "node");
  }
  const globals = isTest ? [] : [path.join(sdk, "src/globals.d.ts")];
  const program = ts.createProgram([...entries, ...globals], options, hostOf(options));
  const isOwn = (file) => !file?.fileName.startsWith(`${sdk}/`);
  // File by file: the SDK's own, which are more than those of most projects, need no checks.
  const mine = program.getSourceFiles().filter(isOwn);
  const unreadable = mine.filter(isNoText);
  if (unreadable.length > 0) {
    const [first, ...others] = unreadable.map((file) => at(directory, file.fileName, lineOfReplaced(file), NO_TEXT));
    throw new BuildFailure(first, others);
  }
  const broken = mine.flatMap((file) => program.getSyntacticDiagnostics(file));
  // What is not understood has wrong types everywhere, and which ones says nothing.
  const all = broken.length > 0 ? broken : mine.flatMap((file) => ts.getPreEmitDiagnostics(program, file));
  const found = ts.sortAndDeduplicateDiagnostics(all).filter((each) => {
    return each.category === ts.DiagnosticCategory.Error && isOwn(each.file);
  });
  if (found.length > 0) {
    const [first, ...others] = found.map((each) => lineOf(directory, each));
    throw new BuildFailure(first, others);
  }
  return program;
}

const NO_TEXT = "not UTF-8, so that the text would be another one: write the file as UTF-8";
/** What stands for bytes that are no text. */
const REPLACED = "\ufffd";

function isNoText(file) {
  return file.text.includes(REPLACED) && !isUtf8(fs.readFileSync(file.fileName));
}

function lineOfReplaced(file) {
  return file.getLineAndCharacterOfPosition(file.text.indexOf(REPLACED)).line + 1;
}

/** Files as they were parsed, for a process that builds more than once. */
const parsed = new Map();

/** What gives the compiler its files: those that are as they were are not parsed again. */
function hostOf(options) {
  const host = ts.createCompilerHost(options);
  const parse = host.getSourceFile;
  host.getSourceFile = (name, how, ...rest) => {
    const as = JSON.stringify([options, how]);
    const kept = parsed.get(name);
    if (kept?.as === as && kept.file?.text === host.readFile(name)) return kept.file;
    const file = parse(name, how, ...rest);
    parsed.set(name, { as, file });
    return file;
  };
  return host;
}

/** The compiler's options of the project's own tsconfig.json or jsconfig.json. */
function ownOptions(directory) {
  for (const name of ["tsconfig.json", "jsconfig.json"]) {
    const file = path.join(directory, name);
    if (!fs.existsSync(file)) continue;
    const read = ts.readConfigFile(file, ts.sys.readFile);
    // Without a list of files: what counts is what the entry imports.
    const host = { ...ts.sys, readDirectory: () => [] };
    const parsed = ts.parseJsonConfigFileContent(read.config ?? {}, host, directory, undefined, file);
    const error = read.error ?? parsed.errors.find((each) => each.code !== 18003 && each.code !== 18002);
    if (error) throw new BuildFailure(lineOf(directory, error, name));
    return parsed.options;
  }
  return {};
}

function lineOf(directory, diagnostic, file) {
  let message = ts.flattenDiagnosticMessageText(diagnostic.messageText, " ").replace(/\s+/g, " ");
  const name = /^Cannot find (?:name|module) '([^']+)'/.exec(message)?.[1];
  if (name && isOfNode(name)) message = ofNode(name);
  // The compiler would have its types installed, which help nobody.
  else if (name && [2580, 2591].includes(diagnostic.code)) message = ofNode(name, "something");
  else if (diagnostic.code === 2307) message += " Is it in package.json, and has `npm install` been run?";
  message = `${message} (TS${diagnostic.code})`;
  if (!diagnostic.file) return file ? `${file}: ${message}` : message;
  const { line } = diagnostic.file.getLineAndCharacterOfPosition(diagnostic.start ?? 0);
  return at(directory, diagnostic.file.fileName, line + 1, message);
}
