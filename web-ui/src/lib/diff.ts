// What has changed between two texts, line by line.

export interface Line {
  text: string;
  /** Whether it is in both texts, in the second one only, or was in the first one only. */
  kind: 'same' | 'added' | 'removed';
}

/** Lines of both texts in order, as few as possible as changed: at most some thousands, whose product is what it takes. */
export function diff(before: string[], after: string[]): Line[] {
  let start = 0;
  while (start < before.length && start < after.length && before[start] === after[start]) start += 1;
  let [one, two] = [before.length, after.length];
  while (one > start && two > start && before[one - 1] === after[two - 1]) {
    one -= 1;
    two -= 1;
  }
  const same = (lines: string[]): Line[] => lines.map(text => ({ text, kind: 'same' }));
  const middle = changed(before.slice(start, one), after.slice(start, two));
  return [...same(before.slice(0, start)), ...middle, ...same(before.slice(one))];
}

/** By the longest common subsequence. */
function changed(before: string[], after: string[]): Line[] {
  const width = after.length + 1;
  // Of what is left of both from a place on: how many lines they have in common.
  const common = new Uint16Array((before.length + 1) * width);
  for (let at = before.length - 1; at >= 0; at -= 1) {
    for (let to = after.length - 1; to >= 0; to -= 1) {
      common[at * width + to] =
        before[at] === after[to]
          ? common[(at + 1) * width + to + 1]! + 1
          : Math.max(common[(at + 1) * width + to]!, common[at * width + to + 1]!);
    }
  }
  const lines: Line[] = [];
  let [at, to] = [0, 0];
  while (at < before.length || to < after.length) {
    if (at < before.length && to < after.length && before[at] === after[to]) {
      lines.push({ text: before[at]!, kind: 'same' });
      at += 1;
      to += 1;
    } else if (
      at < before.length &&
      (to === after.length || common[(at + 1) * width + to]! >= common[at * width + to + 1]!)
    ) {
      lines.push({ text: before[at]!, kind: 'removed' });
      at += 1;
    } else {
      lines.push({ text: after[to]!, kind: 'added' });
      to += 1;
    }
  }
  return lines;
}

/** The lines with what has changed near them; a number stands for so many others, which are the same. */
export function near(lines: Line[], context: number): (Line | number)[] {
  const kept = lines.map((_, at) =>
    lines.slice(Math.max(0, at - context), at + context + 1).some(line => line.kind !== 'same'),
  );
  const shown: (Line | number)[] = [];
  for (let at = 0; at < lines.length;) {
    let to = at;
    while (to < lines.length && !kept[to]) to += 1;
    // One line takes as much room as to say that it is there.
    if (to - at > 1) {
      shown.push(to - at);
      at = to;
    } else {
      shown.push(lines[at]!);
      at += 1;
    }
  }
  return shown;
}
