// The call of a form, to be copied into a program.
import type { Schemas } from '../api/client';
import { LANGUAGES, snippet, type Target } from '../lib/snippets';
import { useChoice } from './address';
import { Command, Switch } from './basics';

export function Snippets({ target }: { target: Target }) {
  const [language, setLanguage] = useChoice('language', LANGUAGES, 'Shell');
  return (
    <div className="snippets">
      <Switch label="Language" all={LANGUAGES} chosen={language} onChoose={setLanguage} />
      <Command>{snippet(language, target)}</Command>
    </div>
  );
}

/** Where programs call: where the server says that it takes calls; by the name of this page, if it does so at every address. */
export function ingressOf({ ingress }: Schemas['IdentityView'], { protocol, hostname }: Location): string {
  const [, host, port] = /^(.*):(\d+)$/.exec(ingress ?? '') ?? [];
  if (!host || !port) return 'http://127.0.0.1:8080';
  return `${protocol}//${host === '0.0.0.0' || host === '[::]' ? hostname : host}:${port}`;
}
