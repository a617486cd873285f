// Where moments are among the points of how a migration went.
import { seconds } from './format';

interface Span {
  /** ms since the migration began; less than nothing before that. */
  after_ms: number;
  ms: number;
}

/** Where a moment is among points, each of which stands for its middle. */
export function positionOf(points: readonly Span[], moment: number): number {
  const at = points.findIndex(({ after_ms: after, ms }) => moment < after + ms);
  if (at < 0) return points.length;
  const { after_ms: after, ms } = points[at]!;
  return at + (moment - after) / ms - 0.5;
}

/** When a point was, for people. */
export function placed({ after_ms: after, ms }: Span): string {
  const middle = (after + ms / 2) / 1000;
  return middle < 0 ? `${seconds(-middle)} before` : `after ${seconds(middle)}`;
}

/** Of how many seconds the longest point is: looks come a little late. */
export const spanOf = (points: readonly Span[]): number => Math.max(...points.map(({ ms }) => Math.round(ms / 1000)));
