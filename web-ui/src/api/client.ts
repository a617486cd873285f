// The admin API: one way to ask, one kind of error.
import { parse } from '../lib/json';
import type { components } from './schema';
import { setToken, token } from './token';

export type Schemas = components['schemas'];

export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly hint: string,
    readonly appCode?: string,
    /** The request that ended so, if it was one. */
    readonly requestId?: string,
  ) {
    super(message);
  }
}

/** What is refused for the sake of others, or of what there is, and done all the same if it is forced. */
const FORCIBLE = ['BROKEN_IMPORT', 'UNMET_IMPORT', 'STATE_INCOMPATIBLE'];
export const isForcible = (error: ApiError | null): boolean => error !== null && FORCIBLE.includes(error.code);

/** What is refused because entities would be placed anew, and done if that is wanted. */
export const isRekeying = (error: ApiError | null): boolean => error?.code === 'KEY_PREFIX_CHANGED';

type Listener = () => void;
const refusals = new Set<Listener>();

/** Tells when the server wants another token than it was shown. */
export function onRefusal(listener: Listener): Listener {
  refusals.add(listener);
  return () => refusals.delete(listener);
}

export function headers(more: HeadersInit = {}): Headers {
  const all = new Headers(more);
  const shown = token();
  if (shown) all.set('authorization', `Bearer ${shown}`);
  all.set('accept', 'application/json');
  return all;
}

export async function request(method: string, path: string, body?: BodyInit, more?: HeadersInit): Promise<Response> {
  const shown = token();
  let response: Response;
  try {
    response = await fetch(path, { method, body, headers: headers(more), cache: 'no-store' });
  } catch {
    throw new ApiError(0, 'NO_CONNECTION', 'the server does not answer', 'see whether it runs, then try again');
  }
  if (response.ok) return response;
  if (response.status === 401) refused(shown);
  throw await errorOf(response);
}

/** The token that was shown is worth nothing. One that was entered meanwhile may be. */
export function refused(shown: string | null): void {
  if (token() === shown) {
    setToken(null);
    refusals.forEach(listener => listener());
  }
}

export async function errorOf(response: Response): Promise<ApiError> {
  const text = await response.text();
  try {
    const { error } = JSON.parse(text) as { error: { code: string; message: string; hint: string; app_code?: string } };
    const id = response.headers.get('styx-request-id') ?? undefined;
    return new ApiError(response.status, error.code, error.message, error.hint, error.app_code, id);
  } catch {
    return new ApiError(
      response.status,
      `HTTP_${response.status}`,
      'this is no answer of a Styx server',
      'see what is at this address',
    );
  }
}

export async function get<T>(path: string): Promise<T> {
  return parse(await (await request('GET', path)).text()) as T;
}

export async function send<T>(method: string, path: string, body?: unknown): Promise<T> {
  const response = await request(method, path, body === undefined ? undefined : JSON.stringify(body));
  return parse(await response.text()) as T;
}

/** A path of names, whatever is in them. */
export const path = (...parts: string[]): string => `/${parts.map(encodeURIComponent).join('/')}`;
