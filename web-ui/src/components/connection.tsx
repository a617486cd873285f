// Says so while nothing comes from the server, or what comes is not for this page.
import { useEffect, useState } from 'react';
import { Link } from 'wouter';
import { connect } from '../api/events';
import { useLive } from '../api/hooks';
import { useSkew } from '../api/skew';
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
  const wait = Math.max(0, Math.ceil((retryAt - now) / 1000));
  if (state === 'denied') {
    return (
      <div className="connection warn" role="status">
        <span>
          Nothing is told as it happens: <bdi>{line(denied?.message ?? '')}</bdi>.{' '}
          <Link href="/access">What the token covers</Link>
        </span>
      </div>
    );
  }
  if (state !== 'lost') return <Skew />;
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

function Skew() {
  if (!useSkew()) return null;
  return (
    <div className="connection warn" role="status">
      The server is of another release than this page, which may show or do something wrong.
      <Button kind="quiet" onClick={() => window.location.reload()}>
        Load it again
      </Button>
    </div>
  );
}
