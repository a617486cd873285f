// Says so while nothing comes from the server.
import { useEffect, useState } from 'react';
import { connect } from '../api/events';
import { useLive } from '../api/hooks';
import { line } from '../lib/format';
import { Button } from './basics';

export function Connection() {
  const { state, retryAt, denied } = useLive();
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    if (state !== 'lost') return;
    setNow(Date.now());
    const timer = setInterval(() => setNow(Date.now()), 500);
    return () => clearInterval(timer);
  }, [state, retryAt]);
  if (state === 'denied') {
    return (
      <div className="connection" role="alert">
        This token may not watch what happens, so that nothing here is live: <bdi>{line(denied?.message ?? '')}</bdi>
      </div>
    );
  }
  if (state !== 'lost') return null;
  const wait = Math.max(0, Math.ceil((retryAt - now) / 1000));
  return (
    <div className="connection" role="alert">
      The server does not answer. What is shown is of before.{' '}
      {wait > 0 ? `Trying again in ${wait} s.` : 'Trying again.'}{' '}
      <Button kind="quiet" onClick={connect}>
        Now
      </Button>
    </div>
  );
}
