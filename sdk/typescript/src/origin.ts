/** From a place in the bundle to the file and line that somebody wrote. */

/** For each line of the bundle, `[index of the file, line]` of its source, or null. */
export interface Lines {
  files: string[];
  lines: ([number, number] | null)[];
}

/** What finds the first place of a stack that is in the project. */
export function originFinder(map: Lines): (stack: string) => string {
  return (stack) => {
    for (const [, line] of stack.matchAll(/:(\d+):\d+\)?/g)) {
      const found = map.lines[Number(line) - 1];
      if (found) return `${map.files[found[0]]}:${found[1]}`;
    }
    return "";
  };
}
