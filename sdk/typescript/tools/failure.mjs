/** A build that failed for a reason in the project: one line for a person, and others about what else is wrong. */
export class BuildFailure extends Error {
  constructor(line, others = []) {
    super(others.length > 0 ? `${line} (and ${others.length} more)` : line);
    this.others = others;
  }
}

const NODE = /^node:|^(fs|path|os|http|https|net|child_process|crypto|stream|util|events|worker_threads|buffer|url|zlib)$/;

/** Whether a module is one of Node.js's own. */
export function isOfNode(module) {
  return NODE.test(module);
}

/** What is wrong with a module, or with something else, that Node.js has. */
export function ofNode(name, what = "a module") {
  return `"${name}" is ${what} of Node.js, which a component does not have: state and other functions are all that it reaches`;
}

/** `file:line: message`, the file as seen from the project. */
export function at(directory, file, line, message) {
  const shown = file.startsWith(`${directory}/`) ? file.slice(directory.length + 1) : file;
  return `${shown}:${line}: ${message}`;
}
