// Where the cells of a map are, and what is in them.

export interface Grid {
  across: number;
  down: number;
  /** Height of a cell with the space after it, in pixels of the screen. */
  pitch: number;
  /** Its width with that space, which may be a part of one more: all of the width is used. */
  wide: number;
}

/** As many rows as cells of a good size need; never so small that they cannot be told apart. */
export function gridOf(cells: number, width: number, density: number): Grid {
  const height = cells <= 4096 ? 260 : 460;
  const wanted = Math.sqrt((width * height) / Math.max(1, cells)) * density;
  const pitch = Math.max(2, Math.min(Math.floor(wanted), Math.floor(22 * density)));
  const most = Math.max(1, Math.min(cells, Math.floor((width * density) / pitch)));
  // Whole rows of a round number are easier to find one's way in, if they do not leave much of the width.
  const round = 2 ** Math.floor(Math.log2(most));
  const across = round >= most * 0.75 && cells % round === 0 ? round : most;
  // What is left of the width is theirs, unless there are so few that they would be long strips.
  const wide = Math.min((width * density) / across, pitch * 1.4);
  return { across, down: Math.ceil(cells / across), pitch, wide };
}

/** Where a column begins, in pixels of the screen: whole ones, so that no cell is blurred. */
export const columnAt = ({ wide }: Pick<Grid, 'wide'>, column: number): number => Math.round(column * wide);

/** The cell at a place, in pixels of the screen. */
export function cellAt({ across, pitch, wide }: Grid, cells: number, x: number, y: number): number | null {
  const [column, row] = [Math.floor(x / wide), Math.floor(y / pitch)];
  const at = row * across + column;
  return column < 0 || row < 0 || column >= across || at >= cells ? null : at;
}

/** Which cell a key leads to. */
export function cellBy(key: string, at: number, { across }: Grid, cells: number): number | null {
  const to = {
    ArrowLeft: at - 1,
    ArrowRight: at + 1,
    ArrowUp: at - across,
    ArrowDown: at + across,
    Home: 0,
    End: cells - 1,
  }[key];
  return to === undefined ? null : to < 0 || to >= cells ? at : to;
}

/** How strong a value is shown beside the most, 0 to 1: by its logarithm, as few have most. */
export const strength = (value: number, most: number): number =>
  value <= 0 || most <= 0 ? 0 : Math.log1p(value) / Math.log1p(most);
