// The call of a form, to be copied into a program.
import { useState } from 'react';
import type { Schemas } from '../api/client';
import { LANGUAGES, snippet, type Target } from '../lib/snippets';
import { useChoice } from './address';
import { Command, Switch } from './basics';

/** Made only when somebody looks: it changes with every key that is pressed in the form. */
export function Snippets({ target }: { target: Target }) {
  const [open, setOpen] = useState(false);
  const [language, setLanguage] = useChoice('language', LANGUAGES, 'Shell');
  return (
    <details open={open} onToggle={event => setOpen(event.currentTarget.open)}>
      <summary>The same call from a program</summary>
      {open && (
        <div className="snippets">
          <Switch label="Language" all={LANGUAGES} chosen={language} onChoose={setLanguage} />
          <Command>{snippet(language, target)}</Command>
        </div>
      )}
    </details>
  );
}

/** Where programs call: where the server says that it takes calls; by the name of this page, if it does so at every address. */
export function ingressOf({ ingress }: Schemas['IdentityView'], { protocol, hostname }: Location): string {
  const [, host, port] = /^(.*):(\d+)$/.exec(ingress ?? '') ?? [];
  if (!host || !port) return 'http://127.0.0.1:8080';
  return `${protocol}//${host === '0.0.0.0' || host === '[::]' ? hostname : host}:${port}`;
}
