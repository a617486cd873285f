import { StyxError } from './error.js';

/** How requests are repeated: exponential pauses with randomness, for a bounded time. All in milliseconds. */
export interface Retry {
  /** The first pause; 20. */
  first?: number;
  /** The longest pause; 2,000. A server's `Retry-After` may be longer. */
  longest?: number;
  /** For how long attempts are begun, counted from the first; 60,000. 0: there is one only. */
  patience?: number;
}

/** Makes attempts until one has an end that may not be repeated. `hasKey`: it cannot happen twice. */
export async function repeat<T>(
  { first = 20, longest = 2_000, patience = 60_000 }: Retry,
  hasKey: boolean,
  attempt: () => Promise<T>,
): Promise<T> {
  const begun = performance.now();
  for (let grown = first; ; grown = Math.min(grown * 2, longest)) {
    try {
      return await attempt();
    } catch (error) {
      if (!(error instanceof StyxError) || !error.isRepeatable(hasKey)) throw error;
      const pause = Math.max(grown * (1 + Math.random()), error.retryAfter ?? 0);
      if (performance.now() - begun + pause >= patience) throw error;
      await new Promise(done => setTimeout(done, pause));
    }
  }
}
