// What functions do, between two readings of what they have done.
import { useEffect, useRef, useState } from 'react';
import { minus, percentile, type Buckets } from '../lib/latency';
import type { Schemas } from './client';
import { useTraffic } from './hooks';

export interface FunctionRate {
  perSecond: number;
  calls: number;
  aborted: number;
  failed: number;
  p50: number | null;
  p99: number | null;
}

type Traffic = Schemas['FunctionTraffic'];

interface Reading {
  at: number;
  functions: Map<string, Traffic>;
}

const name = ({ app, operator, function: fn }: { app: string; operator: string; function: string }): string =>
  JSON.stringify([app, operator, fn]);

const buckets = (traffic: Traffic): Buckets =>
  traffic.buckets.map(({ seconds_max, count }) => [seconds_max ?? null, count]);

const sum = (all: Buckets): number => all.reduce((all, [, n]) => all + n, 0);

/** Figures of an app's functions, by operator and function. */
export function useFunctionRates(app: string): (operator: string, fn: string) => FunctionRate | undefined {
  const traffic = useTraffic();
  const before = useRef<Reading | null>(null);
  const [rates, setRates] = useState(new Map<string, FunctionRate>());
  useEffect(() => {
    if (!traffic.data) return;
    const at = traffic.dataUpdatedAt;
    const functions = new Map(traffic.data.functions.map(one => [name(one), one]));
    const last = before.current;
    const all = [...functions].map(([key, now]): [string, FunctionRate] => {
      const then = last?.functions.get(key);
      const window = then ? minus(buckets(now), buckets(then)) : buckets(now);
      const shown = sum(window) > 0 ? window : buckets(now);
      return [
        key,
        {
          perSecond: last && at > last.at ? sum(window) / ((at - last.at) / 1000) : 0,
          calls: now.succeeded + now.aborted + now.failed,
          aborted: now.aborted,
          failed: now.failed,
          p50: percentile(shown, 0.5),
          p99: percentile(shown, 0.99),
        },
      ];
    });
    before.current = { at, functions };
    setRates(new Map(all));
  }, [traffic.data, traffic.dataUpdatedAt]);
  return (operator, fn) => rates.get(name({ app, operator, function: fn }));
}
