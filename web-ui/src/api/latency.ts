// How long requests take, between two readings of what has been answered.
import { useEffect, useRef, useState } from 'react';
import { minus, percentile, total, type Buckets } from '../lib/latency';
import { useTraffic } from './hooks';

/** Latencies of a window between two readings. */
export interface Window {
  p50: number | null;
  p99: number | null;
  count: number;
}

export const EVERY_SECONDS = 2;

/** Windows since the page was opened, so many at most, the oldest first. */
export function useLatencyHistory(most: number): Window[] {
  const traffic = useTraffic();
  const before = useRef<Buckets | null>(null);
  const [history, setHistory] = useState<Window[]>([]);
  useEffect(() => {
    if (!traffic.data) return;
    const buckets = total(traffic.data);
    if (before.current) {
      const window = minus(buckets, before.current);
      setHistory(history => [
        ...history.slice(-most + 1),
        {
          p50: percentile(window, 0.5),
          p99: percentile(window, 0.99),
          count: window.reduce((sum, [, n]) => sum + n, 0),
        },
      ]);
    }
    before.current = buckets;
  }, [traffic.data, traffic.dataUpdatedAt, most]);
  return history;
}
