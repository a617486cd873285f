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
  /** Of an invocation, without what it calls: the mean. */
  fuel: number | null;
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

/** Fuel of an invocation since then; of all, where there was none since, or who reports has begun anew. */
function mean(now: Traffic, then: Traffic | undefined): number | null {
  const came = then !== undefined && now.invocations > then.invocations && now.fuel >= then.fuel;
  const before = came ? then : { invocations: 0, fuel: 0 };
  const invocations = now.invocations - before.invocations;
  return invocations > 0 ? (now.fuel - before.fuel) / invocations : null;
}

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
          fuel: mean(now, then),
        },
      ];
    });
    before.current = { at, functions };
    setRates(new Map(all));
  }, [traffic.data, traffic.dataUpdatedAt]);
  return (operator, fn) => rates.get(name({ app, operator, function: fn }));
}
