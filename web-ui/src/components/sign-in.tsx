// Asks for a token, where the server wants one.
import { useState, type FormEvent } from 'react';
import { ApiError, get } from '../api/client';
import { setToken } from '../api/token';
import { Button, ErrorNotice } from './basics';

export function SignIn({ onDone }: { onDone: () => void }) {
  const [text, setText] = useState('');
  const [error, setError] = useState<ApiError | null>(null);
  const [busy, setBusy] = useState(false);
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    setToken(text.trim());
    try {
      await get('/v1/identity');
      onDone();
    } catch (error) {
      setToken(null);
      setError(error as ApiError);
      setBusy(false);
    }
  };
  return (
    <main className="sign-in" id="content">
      <form onSubmit={event => void submit(event)} className="card">
        <h1>Styx</h1>
        <p>This server asks for a token: the operator’s, or one that was issued with the scope “read”.</p>
        <label className="field">
          <span>Token</span>
          <input
            type="password"
            value={text}
            autoFocus
            required
            autoComplete="current-password"
            onChange={event => setText(event.target.value)}
          />
        </label>
        <ErrorNotice error={error} />
        <Button type="submit" kind="primary" busy={busy}>
          Go on
        </Button>
        <p className="quiet">It is kept until this tab is closed.</p>
      </form>
    </main>
  );
}
