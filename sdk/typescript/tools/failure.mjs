/** A build that failed for a reason in the project: one line for a person. */
export class BuildFailure extends Error {}

/** `file:line: message`, the file as seen from the project. */
export function at(directory, file, line, message) {
  const shown = file.startsWith(`${directory}/`) ? file.slice(directory.length + 1) : file;
  return `${shown}:${line}: ${message}`;
}
