/** An error as the server writes it. */
export interface Refusal {
  code: string;
  message?: string;
  hint?: string;
  app_code?: string | null;
}

const UNKNOWN = new Set(['OUTCOME_UNKNOWN', 'SHUTTING_DOWN', 'TIMEOUT', 'CONNECTION']);
const TRANSIENT = new Set([
  'OVERLOADED',
  'UNAVAILABLE',
  'NOT_READY',
  'LOG_STALLED',
  'DISK_FULL',
  'STANDBY',
  'UNREACHABLE',
  'RATE_LIMITED',
]);

/** The end of a request without a result. */
export class StyxError extends Error {
  override readonly name = 'StyxError';
  /** Advice; may be empty. */
  readonly hint: string;
  /** The app's own code, if the function gave one. */
  readonly appCode: string | undefined;
  /** The HTTP status, if there was one. */
  readonly status: number | undefined;
  /** Milliseconds that the server asks to wait before the next attempt. */
  readonly retryAfter: number | undefined;

  constructor(
    /**
     * A stable code, such as `ABORTED` or `OVERLOADED`; the server's documentation lists them. The client adds `UNREACHABLE`,
     * `CONNECTION` (it broke before the reply), `TIMEOUT`, `HTTP` (a status without a reason), `CLOSED` and `BAD_REPLY`.
     */
    readonly code: string,
    /** One line that says what is wrong. */
    readonly reason: string,
    more: {
      hint?: string | undefined;
      appCode?: string | undefined;
      status?: number | undefined;
      retryAfter?: number | undefined;
    } = {},
  ) {
    super(`${code}${more.appCode ? ` (${more.appCode})` : ''}: ${reason}${more.hint ? `; ${more.hint}` : ''}`);
    this.hint = more.hint ?? '';
    this.appCode = more.appCode;
    this.status = more.status;
    this.retryAfter = more.retryAfter;
  }

  /** True if the function itself refused: nothing was written, and it would refuse again. */
  get isAborted(): boolean {
    return this.code === 'ABORTED';
  }

  /** True if nobody can say whether the request had an effect. With an idempotency key, asking again tells. */
  get outcomeUnknown(): boolean {
    return UNKNOWN.has(this.code);
  }

  /** True if another attempt may fare better. */
  get isTransient(): boolean {
    return this.outcomeUnknown || TRANSIENT.has(this.code) || this.status === 429 || this.status === 503;
  }

  /** True if the request may be repeated without happening twice, and should be. */
  isRepeatable(hasKey: boolean): boolean {
    return this.isTransient && (hasKey || !this.outcomeUnknown);
  }
}

/** The error of an object as the server writes it. */
export function refused(error: Refusal, status?: number, retryAfter?: number): StyxError {
  if (typeof error?.code !== 'string') return new StyxError('BAD_REPLY', 'an error without a code', { status });
  const { code, message = '', hint, app_code } = error;
  return new StyxError(code, message, { hint, appCode: app_code ?? undefined, status, retryAfter });
}
