// What functions do, between two readings of what they have done.
import { useEffect, useMemo, useRef, useState } from 'react';
import { minus, percentile, type Buckets } from '../lib/latency';
import type { Schemas } from './client';
import { useRequests, useTraffic } from './hooks';

export interface FunctionRate {
  perSecond: number;
  calls: number;
  aborted: number;
  failed: number;
  p50: number | null;
  p99: number | null;
  /** Of a call, with all that it calls: the mean of the last that were watched. */
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

/** Figures of an app's functions, by operator and function. */
export function useFunctionRates(app: string): (operator: string, fn: string) => FunctionRate | undefined {
  const traffic = useTraffic();
  const fuel = useFuel(app);
  const before = useRef<Reading | null>(null);
  const [rates, setRates] = useState(new Map<string, Omit<FunctionRate, 'fuel'>>());
  useEffect(() => {
    if (!traffic.data) return;
    const at = traffic.dataUpdatedAt;
    const functions = new Map(traffic.data.functions.map(one => [name(one), one]));
    const last = before.current;
    const all = [...functions].map(([key, now]): [string, Omit<FunctionRate, 'fuel'>] => {
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
  return (operator, fn) => {
    const key = name({ app, operator, function: fn });
    const known = rates.get(key);
    return known && { ...known, fuel: fuel.get(key) ?? null };
  };
}

/** Fuel of calls, by function, of the last requests of an app that were watched. */
function useFuel(app: string): Map<string, number> {
  const requests = useRequests('recent', app);
  return useMemo(() => {
    const sums = new Map<string, { fuel: number; calls: number }>();
    for (const one of requests.data?.requests ?? []) {
      if (one.fuel == null || one.code != null) continue;
      const before = sums.get(name(one)) ?? { fuel: 0, calls: 0 };
      sums.set(name(one), { fuel: before.fuel + one.fuel, calls: before.calls + 1 });
    }
    return new Map([...sums].map(([key, { fuel, calls }]) => [key, fuel / calls]));
  }, [requests.data]);
}
