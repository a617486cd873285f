// What a migration cost those who called meanwhile: the longest epochs and latencies before, during and after it.
import type { Schemas } from '../api/client';
import { useCourse } from '../api/hooks';
import { placed, positionOf, spanOf } from '../lib/course';
import { seconds } from '../lib/format';
import { Pending } from './basics';
import { Chart } from './chart';

export function Course({ migration }: { migration: Schemas['MigrationView'] }) {
  const course = useCourse(migration.id);
  if (!course.data) return <Pending of={course} />;
  const { points, complete } = course.data;
  if (points.length === 0) return <p className="quiet">The coordinator has not looked yet.</p>;
  const labels = points.map(placed);
  const ended = migration.ended == null ? points.length : positionOf(points, migration.took_ms);
  const during: [number, number] = [positionOf(points, 0), ended];
  const of = (name: 'longest_epoch_ms' | 'p50_ms' | 'p99_ms') =>
    points.map(({ [name]: ms }) => (ms == null ? null : ms / 1000));
  return (
    <>
      <div className="columns">
        <div>
          <h3>Longest epoch</h3>
          <Chart
            title={`Longest epoch of each ${spanOf(points)} s`}
            labels={labels}
            format={seconds}
            height={120}
            during={during}
            series={[{ name: `of each ${spanOf(points)} s`, color: 'c-committed', values: of('longest_epoch_ms') }]}
          />
        </div>
        <div>
          <h3>Latency</h3>
          {points.some(({ calls }) => calls > 0) ? (
            <Chart
              title="Latency"
              labels={labels}
              format={seconds}
              height={120}
              during={during}
              series={[
                { name: 'p50', color: 'c-committed', values: of('p50_ms') },
                { name: 'p99', color: 'c-fallback', values: of('p99_ms') },
              ]}
            />
          ) : (
            <p className="quiet">Nobody has called meanwhile.</p>
          )}
        </div>
      </div>
      <p className="quiet">
        Shaded: while it {migration.ended == null ? 'goes on' : 'went on'}. Gateways report what they answer every two
        seconds{!complete && ', so that the last of it is still to come'}.
      </p>
    </>
  );
}
