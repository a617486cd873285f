// Whether the server's console is still the one that runs here.
import { useQuery } from '@tanstack/react-query';

/** Scripts are named by their content, so another name is another console. */
async function isOutdated(): Promise<boolean> {
  const page = await (await fetch('/', { headers: { accept: 'text/html' }, cache: 'no-store' })).text();
  const script = /\/assets\/index-[\w-]+\.js/.exec(page)?.[0];
  return script !== undefined && !import.meta.url.endsWith(script);
}

/** Asked at the beginning, and again whenever everything is: after a lost connection. */
export const useSkew = (): boolean =>
  useQuery({ queryKey: ['skew'], queryFn: isOutdated, staleTime: Infinity, retry: false }).data ?? false;
