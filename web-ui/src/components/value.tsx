// Values of guests: shown as they are, never interpreted, however long.
import { useMemo, useState } from 'react';
import { bytes, shorten, visible } from '../lib/format';
import { stringify, type Json } from '../lib/json';
import { Button, Copy } from './basics';

const SHOWN = 4000;

export function Value({ value }: { value: Json }) {
  const text = useMemo(() => {
    try {
      return stringify(value);
    } catch {
      return 'nested too deeply to be shown';
    }
  }, [value]);
  return <Text text={text} />;
}

export function Text({ text }: { text: string }) {
  const [all, setAll] = useState(false);
  const isLong = text.length > SHOWN;
  return (
    <div className="value-text">
      <pre dir="auto" tabIndex={0}>
        {visible(all || !isLong ? text : text.slice(0, SHOWN))}
        {isLong && !all && '…'}
      </pre>
      <div className="value-actions">
        {isLong && (
          <Button kind="quiet" onClick={() => setAll(!all)}>
            {all ? 'Show less' : `Show all of it, ${bytes(text.length)}`}
          </Button>
        )}
        <Copy text={text} label="Copy value" />
      </div>
    </div>
  );
}

/** A value in a row of a table. */
export function brief(value: Json, max = 120): string {
  if (typeof value === 'string' && value.length > max * 8) value = value.slice(0, max * 8);
  let text: string;
  try {
    text = stringify(value).replace(/\s+/g, ' ');
  } catch {
    text = 'nested too deeply to be shown';
  }
  return visible(shorten(text, max));
}
