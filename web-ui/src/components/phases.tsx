// What the time of a request went into: a bar, and the same as a list.
import type { Schemas } from '../api/client';
import { seconds } from '../lib/format';

type Phase = Schemas['TracePhase'];

const NAMES: Record<string, string> = {
  queued: 'Waiting for its epoch',
  execute: 'Executing',
  validate: 'Finding conflicts',
  fallback: 'Running again',
  durable: 'Committing, until durable',
  reply: 'Until it was answered',
};

const COLOURS: Record<string, string> = {
  queued: 'w8',
  execute: 'w1',
  validate: 'w2',
  fallback: 'w3',
  durable: 'w6',
  reply: 'w5',
};

const percent = (share: number): string => (share > 0 && share < 0.01 ? '< 1 %' : `${Math.round(share * 100)} %`);

export function Phases({ phases }: { phases: Phase[] }) {
  const [first, last] = [phases[0], phases.at(-1)];
  if (!first || !last) return <p className="empty">It has not been executed yet.</p>;
  const whole = Math.max(1, last.ended_us - first.begun_us);
  const share = (phase: Phase) => (phase.ended_us - phase.begun_us) / whole;
  return (
    <>
      <svg className="phases" viewBox="0 0 1000 22" preserveAspectRatio="none" aria-hidden="true">
        {phases.map((phase, at) => (
          <rect
            key={at}
            className={COLOURS[phase.name]}
            x={((phase.begun_us - first.begun_us) / whole) * 1000}
            width={Math.max(1.5, share(phase) * 1000)}
            height={22}
          >
            <title>{NAMES[phase.name] ?? phase.name}</title>
          </rect>
        ))}
      </svg>
      <ol className="phase-list" aria-label="Phases">
        {phases.map((phase, at) => (
          <li key={at}>
            <span className={`swatch ${COLOURS[phase.name]}`} aria-hidden="true" />
            {NAMES[phase.name] ?? phase.name} <strong>{seconds((phase.ended_us - phase.begun_us) / 1e6)}</strong>{' '}
            <span className="quiet">{percent(share(phase))}</span>
          </li>
        ))}
      </ol>
    </>
  );
}
