// Small parts that all pages are made of.
import { Children, useEffect, useId, useRef, useState, type ButtonHTMLAttributes, type ReactNode } from 'react';
import { Link } from 'wouter';
import { ApiError } from '../api/client';
import { ago, instant, line, shorten } from '../lib/format';

/** The top of a page; its title is the tab's as well. */
export function Page({ title, lead, actions, children, trail }: PageProps) {
  useEffect(() => {
    document.title = `${line(title)} · Styx`;
  }, [title]);
  return (
    <>
      <header className="page-head">
        <div>
          {trail && (
            <nav aria-label="Where this is" className="trail">
              {trail.map(([name, href]) => (
                <span key={href}>
                  <Link href={href}>{line(name)}</Link> <span aria-hidden="true">/</span>{' '}
                </span>
              ))}
            </nav>
          )}
          <h1 tabIndex={-1}>
            <bdi>{line(title)}</bdi>
          </h1>
          {lead && <p className="lead">{lead}</p>}
        </div>
        {actions && <div className="actions">{actions}</div>}
      </header>
      {children}
    </>
  );
}

interface PageProps {
  title: string;
  lead?: ReactNode;
  actions?: ReactNode;
  children: ReactNode;
  trail?: [string, string][];
}

export function Card({ title, note, children, className = '' }: CardProps) {
  const id = useId();
  return (
    <section className={`card ${className}`} aria-labelledby={title ? id : undefined}>
      {title && (
        <header className="card-head">
          <h2 id={id}>{title}</h2>
          {note && <div className="note">{note}</div>}
        </header>
      )}
      {children}
    </section>
  );
}

interface CardProps {
  title?: ReactNode;
  note?: ReactNode;
  children: ReactNode;
  className?: string;
}

/** A column of numbers. */
export const number = (title: string) => ({ number: title });

/** So many rows of a table that is not all of its page are shown before they scroll. */
const ROWS = 12;

/**
 * A table that scrolls sideways where it is too wide, also by keys; one that is `boxed` also up and down, where it has
 * many rows and others come after it. Columns that are `false` are not there.
 */
export function Table({ label, columns, className, boxed = false, children }: TableProps) {
  const heads = columns.filter(column => column !== false);
  const box = boxed && Children.count(children) > ROWS ? 'scroll box' : 'scroll';
  return (
    <div className={box} tabIndex={0} role="region" aria-label={label}>
      <table className={className}>
        <thead>
          <tr>
            {heads.map((column, index) =>
              typeof column === 'string' ? (
                <th key={index}>{column}</th>
              ) : (
                <th key={index} className="number">
                  {column.number}
                </th>
              ),
            )}
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  );
}

interface TableProps {
  /** What it shows, for whoever does not see it. */
  label: string;
  columns: (string | { number: string } | false)[];
  className?: string;
  boxed?: boolean;
  children: ReactNode;
}

/** How long ago something was, in a cell of a table; when exactly, for whoever points at it. µs since 1970, or an instant. */
export function Age({ of, quiet = false }: { of: number | string; quiet?: boolean }) {
  const at = typeof of === 'string' ? of : new Date(of / 1000).toISOString();
  return (
    <td className={quiet ? 'quiet brief' : 'brief'} title={instant(at)}>
      {ago(at)}
    </td>
  );
}

export function Notice({
  kind,
  title,
  children,
}: {
  kind: 'bad' | 'warn' | 'good' | 'info';
  title: ReactNode;
  children?: ReactNode;
}) {
  return (
    <div className={`notice ${kind}`} role={kind === 'bad' ? 'alert' : 'status'}>
      <span className="mark" aria-hidden="true">
        {{ bad: '✕', warn: '!', good: '✓', info: 'i' }[kind]}
      </span>
      <div>
        <strong>{title}</strong>
        {children && <div>{children}</div>}
      </div>
    </div>
  );
}

export function ErrorNotice({ error }: { error: ApiError | Error | null }) {
  if (!error) return null;
  if (!(error instanceof ApiError)) return <Notice kind="bad" title={line(error.message)} />;
  return (
    <Notice
      kind="bad"
      title={
        <>
          <code>{error.appCode ? `${error.code} · ${line(error.appCode)}` : error.code}</code>{' '}
          <bdi>{line(error.message)}</bdi>
        </>
      }
    >
      {error.hint && <bdi>{line(error.hint)}</bdi>}
      {error.code === 'FORBIDDEN' && (
        <>
          {' '}
          <Link href="/access">What the token covers</Link>
        </>
      )}
    </Notice>
  );
}

/** What a page shows until it has its data, or if it cannot have them. */
export function Pending({ of }: { of: { error: ApiError | null; isPending: boolean } }) {
  if (of.error) return <ErrorNotice error={of.error} />;
  return of.isPending ? <Loading /> : null;
}

function Loading() {
  const [late, setLate] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setLate(true), 400);
    return () => clearTimeout(timer);
  }, []);
  return (
    <p className="loading" role="status">
      {late ? 'Loading…' : '\u00a0'}
    </p>
  );
}

type ButtonProps = ButtonHTMLAttributes<HTMLButtonElement> & {
  kind?: 'plain' | 'primary' | 'danger' | 'quiet';
  /** Why it cannot be pressed, if who looks may not. */
  denied?: string;
  busy?: boolean;
};

export function Button({ kind = 'plain', denied = '', busy = false, disabled, children, ...rest }: ButtonProps) {
  return (
    <button
      type="button"
      {...rest}
      className={`button ${kind} ${rest.className ?? ''}`}
      disabled={disabled || busy || denied !== ''}
      title={denied || rest.title}
      aria-busy={busy || undefined}
    >
      {busy && <span className="spinner" aria-hidden="true" />}
      {children}
      {denied && <span className="unseen"> ({denied})</span>}
    </button>
  );
}

/** Something to copy: a command, a token. */
export function Copy({ text, label = 'Copy' }: { text: string; label?: string }) {
  const [copied, setCopied] = useState(false);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      // Not allowed where the page is not from a secure address: the old way.
      const area = document.createElement('textarea');
      area.value = text;
      document.body.append(area);
      area.select();
      document.execCommand('copy');
      area.remove();
    }
    setCopied(true);
    setTimeout(() => setCopied(false), 1500);
  };
  return (
    <Button kind="quiet" onClick={() => void copy()} aria-label={`${label}: ${line(shorten(text, 80))}`}>
      {copied ? 'Copied' : label}
    </Button>
  );
}

export function Command({ children }: { children: string }) {
  return (
    <div className="command">
      <pre tabIndex={0}>{children}</pre>
      <Copy text={children} />
    </div>
  );
}

/** One of a few, each to be seen. */
export function Switch<T extends string>({ label, all, chosen, name = line, onChoose }: SwitchProps<T>) {
  const group = useId();
  return (
    <fieldset className="switch">
      <legend className="unseen">{label}</legend>
      {all.map(value => (
        <label key={value}>
          <input
            type="radio"
            name={group}
            className="unseen"
            checked={chosen === value}
            onChange={() => onChoose(value)}
          />
          <span>{name(value)}</span>
        </label>
      ))}
    </fieldset>
  );
}

interface SwitchProps<T> {
  label: string;
  all: readonly T[];
  chosen: T;
  /** How one is called. */
  name?: (value: T) => string;
  onChoose: (value: T) => void;
}

/** A question before something that cannot be taken back. With `repeat` that has to be typed. */
export function Confirm({
  title,
  children,
  action,
  kind = 'danger',
  repeat,
  busy,
  error,
  onConfirm,
  onClose,
}: ConfirmProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [typed, setTyped] = useState('');
  const id = useId();
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} aria-labelledby={id} onClose={onClose} onCancel={onClose}>
      <form
        method="dialog"
        onSubmit={event => {
          event.preventDefault();
          onConfirm();
        }}
      >
        <h2 id={id}>{title}</h2>
        {children}
        {repeat !== undefined && (
          <label className="field">
            <span>
              Type <code>{line(repeat)}</code> to confirm
            </span>
            <input
              value={typed}
              onChange={event => setTyped(event.target.value)}
              autoComplete="off"
              spellCheck={false}
            />
          </label>
        )}
        <ErrorNotice error={error ?? null} />
        <div className="actions">
          <Button onClick={onClose}>Leave it</Button>
          <Button type="submit" kind={kind} busy={busy} disabled={repeat !== undefined && typed !== repeat}>
            {action}
          </Button>
        </div>
      </form>
    </dialog>
  );
}

interface ConfirmProps {
  title: ReactNode;
  children?: ReactNode;
  action: string;
  kind?: 'primary' | 'danger';
  repeat?: string;
  busy?: boolean;
  error?: ApiError | null;
  onConfirm: () => void;
  onClose: () => void;
}

export function Tag({
  kind = 'plain',
  children,
}: {
  kind?: 'plain' | 'good' | 'warn' | 'bad' | 'accent';
  children: ReactNode;
}) {
  return <span className={`tag ${kind}`}>{children}</span>;
}

export function Figure({
  name,
  value,
  unit,
  children,
}: {
  name: string;
  value: ReactNode;
  unit?: string;
  children?: ReactNode;
}) {
  return (
    <div className="figure">
      <div className="name">{name}</div>
      <div className="value">
        {value}
        {unit && <span className="unit"> {unit}</span>}
      </div>
      {children}
    </div>
  );
}
