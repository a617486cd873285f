// Partitions as a map: a cell each, coloured by who has it; fuller ones are stronger.
import { useEffect, useRef, useState } from 'react';
import type { Schemas } from '../api/client';
import { bytes, count, plural } from '../lib/format';

type Partition = Schemas['PartitionView'];

/** How long a cell is marked after its partition has moved. */
const MARKED_MS = 8000;
const COLORS = 8;

export const colorOf = (worker: number): string => `w${((worker - 1) % COLORS) + 1}`;

/** Partitions whose owner was another a moment ago. */
function useMoved(partitions: Partition[]): Set<number> {
  const owners = useRef(new Map<number, number>());
  const [moved, setMoved] = useState(new Map<number, number>());
  useEffect(() => {
    const now = Date.now();
    const before = owners.current;
    const fresh = partitions.filter(
      ({ partition, worker }) => before.has(partition) && before.get(partition) !== worker,
    );
    owners.current = new Map(partitions.map(({ partition, worker }) => [partition, worker]));
    setMoved(moved => {
      const kept = [...moved].filter(([, at]) => now - at < MARKED_MS);
      return fresh.length || kept.length !== moved.size
        ? new Map([...kept, ...fresh.map(({ partition }): [number, number] => [partition, now])])
        : moved;
    });
  }, [partitions]);
  return new Set(moved.keys());
}

export function PartitionMap({ partitions }: { partitions: Partition[] }) {
  const [shown, setShown] = useState<Partition | null>(null);
  const moved = useMoved(partitions);
  const moving = partitions.filter(({ moves_to }) => moves_to != null).length;
  const across = Math.min(64, Math.max(8, 2 ** Math.round(Math.log2(Math.sqrt(partitions.length * 2)))));
  const most = Math.max(1, ...partitions.map(({ entities }) => entities));
  const owners = countBy(partitions, ({ worker }) => worker);
  const current = shown && partitions.find(({ partition }) => partition === shown.partition);
  return (
    <figure className="map">
      <svg
        viewBox={`0 0 ${across * 10} ${Math.ceil(partitions.length / across) * 10}`}
        role="img"
        aria-label={`Partitions by worker: ${[...owners].map(([worker, n]) => `worker ${worker} has ${n}`).join(', ')}`}
        onPointerLeave={() => setShown(null)}
      >
        {partitions.map((partition, at) => (
          <rect
            key={partition.partition}
            className={`cell ${colorOf(partition.worker)} ${partition.moves_to != null ? 'moving' : ''} ${moved.has(partition.partition) ? 'moved' : ''}`}
            x={(at % across) * 10 + 0.6}
            y={Math.floor(at / across) * 10 + 0.6}
            width={8.8}
            height={8.8}
            rx={1.6}
            style={{ fillOpacity: 0.35 + (0.65 * Math.log1p(partition.entities)) / Math.log1p(most) }}
            onPointerEnter={() => setShown(partition)}
          />
        ))}
      </svg>
      <figcaption>
        {[...owners].map(([worker, n]) => (
          <span key={worker} className="legend">
            <span className={`swatch ${colorOf(worker)}`} aria-hidden="true" />
            worker {worker} <b>{count(n)}</b>
          </span>
        ))}
        {moving > 0 && (
          <span className="legend">
            <span className="swatch moving" aria-hidden="true" />
            moving <b>{count(moving)}</b>
          </span>
        )}
        <span className="legend when">
          {current
            ? `partition ${current.partition}, worker ${current.worker}${current.moves_to != null ? `, on its way to ${current.moves_to}` : ''}: ${count(current.entities)} entities, ${bytes(current.bytes)}, ${plural(current.calls, 'call')}`
            : 'stronger cells hold more entities'}
        </span>
      </figcaption>
    </figure>
  );
}

function countBy<T>(all: T[], of: (one: T) => number): Map<number, number> {
  const counts = new Map<number, number>();
  for (const one of all) counts.set(of(one), (counts.get(of(one)) ?? 0) + 1);
  return new Map([...counts].sort(([a], [b]) => a - b));
}
