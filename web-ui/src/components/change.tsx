// What a write has made of an entity: the lines that have gone, and those that have come.
import { useMemo } from 'react';
import { diff, near } from '../lib/diff';
import { plural, visible } from '../lib/format';
import { stringify, type Json } from '../lib/json';

/** A value of the admin API; nothing where there is none. */
export type Encoded = { value: Json; encoding: string } | null | undefined;

/** Unchanged lines that are shown beside those that have changed. */
const CONTEXT = 3;

/** Bytes: sixteen a row, and what of them is text. */
export function hex(raw: string): string[] {
  const rows: string[] = [];
  for (let at = 0; at < raw.length; at += 16) {
    const part = raw.slice(at, at + 16);
    const digits = [...part].map(char => char.charCodeAt(0).toString(16).padStart(2, '0')).join(' ');
    rows.push(`${at.toString(16).padStart(6, '0')}  ${digits.padEnd(47)}  ${part.replace(/[^ -~]/g, '·')}`);
  }
  return rows;
}

/** A value as lines, each element in one of its own. */
function lines(of: Encoded): string[] {
  if (!of) return [];
  if (of.encoding === 'base64') return hex(atob(of.value as string));
  try {
    return stringify(of.value, '', 0).split('\n');
  } catch {
    return ['nested too deeply to be shown'];
  }
}

export const isSame = (one: Encoded, other: Encoded): boolean =>
  !one || !other
    ? !one && !other
    : one.encoding === other.encoding && lines(one).join('\n') === lines(other).join('\n');

export function Change({ before, after }: { before: Encoded; after: Encoded }) {
  const parts = useMemo(() => near(diff(lines(before), lines(after)), CONTEXT), [before, after]);
  const said = !before ? 'It was not there before.' : !after ? 'It was deleted.' : '';
  return (
    <>
      {said && <p className="quiet">{said}</p>}
      {before && isSame(before, after) ? (
        <p className="quiet">It was the same before.</p>
      ) : (
        <pre className="change" dir="auto" tabIndex={0} role="region" aria-label="What has changed">
          {parts.map((part, at) =>
            typeof part === 'number' ? (
              <span key={at} className="quiet">
                … {plural(part, 'line')} as before …
              </span>
            ) : part.kind === 'added' ? (
              <ins key={at}>+ {visible(part.text)}</ins>
            ) : part.kind === 'removed' ? (
              <del key={at}>− {visible(part.text)}</del>
            ) : (
              <span key={at}>
                {'  '}
                {visible(part.text)}
              </span>
            ),
          )}
        </pre>
      )}
    </>
  );
}
