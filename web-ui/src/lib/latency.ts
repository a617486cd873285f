// Percentiles of histograms, between two readings of them.
import type { Schemas } from '../api/client';

/** Upper end in seconds, null where it is open, and how many. */
export type Buckets = [number | null, number][];

const TRANSACTIONS = ['committed', 'answered', 'accepted', 'aborted'];

/** Of everything that was executed. */
export function total(traffic: Schemas['Traffic']): Buckets {
  const counted = traffic.outcomes.filter(({ outcome }) => TRANSACTIONS.includes(outcome));
  return (counted[0]?.buckets ?? []).map(({ seconds_max }, at) => [
    seconds_max ?? null,
    counted.reduce((sum, { buckets }) => sum + (buckets[at]?.count ?? 0), 0),
  ]);
}

/** What came between two readings; all, if the process began anew in between. */
export function minus(now: Buckets, before: Buckets): Buckets {
  const window = now.map(([end, n], at): [number | null, number] => [end, n - (before[at]?.[1] ?? 0)]);
  return window.some(([, n]) => n < 0) ? now : window;
}

/** Where so much of them lies under; within a bucket they are taken to be spread evenly. */
export function percentile(buckets: Buckets, share: number): number | null {
  const all = buckets.reduce((sum, [, n]) => sum + n, 0);
  if (all === 0) return null;
  let rest = all * share;
  let start = 0;
  for (const [end, n] of buckets) {
    if (end === null) return start;
    if (rest <= n) return start + ((end - start) * rest) / n;
    rest -= n;
    start = end;
  }
  return start;
}
