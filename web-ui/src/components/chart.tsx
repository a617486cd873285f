// A chart over time as SVG: stacked areas or lines. Its figures are there as text for those who do not see it.
import { useEffect, useId, useRef, useState, type PointerEvent } from 'react';

export interface Series {
  name: string;
  /** Class that gives the colour. */
  color: string;
  values: (number | null)[];
}

interface Props {
  title: string;
  series: Series[];
  /** Where each value is, for people. */
  labels: string[];
  format: (value: number) => string;
  stacked?: boolean;
  height?: number;
  /** From where to where what is shown went on, in values; these may be parts of one. */
  during?: [number, number];
}

const LEFT = 56;
const BOTTOM = 20;
const TOP = 8;

/** An upper end that reads well, with a few lines under it. */
function scale(max: number): { top: number; lines: number[] } {
  if (max <= 0) return { top: 1, lines: [0, 1] };
  const magnitude = 10 ** Math.floor(Math.log10(max));
  const step = ([0.2, 0.25, 0.5, 1, 2, 2.5, 5].find(step => max / (step * magnitude) <= 4) ?? 5) * magnitude;
  const top = Math.ceil(max / step - 1e-9) * step;
  return { top, lines: Array.from({ length: Math.round(top / step) + 1 }, (_, at) => at * step) };
}

/** As wide as there is room, so that its text is as large as all other. */
function useWidth() {
  const element = useRef<HTMLElement>(null);
  const [width, setWidth] = useState(560);
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => entry && setWidth(Math.max(200, entry.contentRect.width)));
    if (element.current) observer.observe(element.current);
    return () => observer.disconnect();
  }, []);
  return [element, width] as const;
}

export function Chart({ title, series, labels, format, stacked = false, height = 180, during }: Props) {
  const id = useId();
  const [at, setAt] = useState<number | null>(null);
  const [figure, width] = useWidth();
  const length = labels.length;
  const layers = stacked ? stack(series) : series.map(({ values }) => ({ base: values.map(() => 0), values }));
  const { top, lines } = scale(Math.max(0, ...layers.flatMap(({ values }) => values.map(value => value ?? 0))));
  const x = (at: number) => LEFT + ((width - LEFT) * at) / Math.max(1, length - 1);
  const y = (value: number) => TOP + (height - TOP - BOTTOM) * (1 - value / top);
  const clamp = (at: number) => Math.max(0, Math.min(length - 1, at));
  const point = (event: PointerEvent<SVGSVGElement>) => {
    const box = event.currentTarget.getBoundingClientRect();
    const across = ((event.clientX - box.left) / box.width) * width;
    setAt(Math.max(0, Math.min(length - 1, Math.round(((across - LEFT) / (width - LEFT)) * (length - 1)))));
  };
  const shown = at !== null && at < length ? at : null;
  const latest = (values: (number | null)[]) =>
    shown === null ? values.findLast(value => value !== null) : values[shown];
  return (
    <figure className="chart" ref={figure}>
      <figcaption>
        {series.map(({ name, color, values }) => (
          <span key={name} className="legend">
            <span className={`swatch ${color}`} aria-hidden="true" />
            {name}{' '}
            <b>{((value: number | null | undefined) => (value == null ? '–' : format(value)))(latest(values))}</b>
          </span>
        ))}
        <span className="legend when">{shown === null ? '' : labels[shown]}</span>
      </figcaption>
      <svg
        viewBox={`0 0 ${width} ${height}`}
        role="img"
        aria-labelledby={id}
        onPointerMove={point}
        onPointerLeave={() => setAt(null)}
      >
        <title id={id}>
          {`${title}: ${series.map(({ name, values }) => `${name} ${((value: number | null | undefined) => (value == null ? 'none' : format(value)))(values.findLast(value => value !== null))}`).join(', ')}`}
        </title>
        {during && <Shade from={x(clamp(during[0]))} to={x(clamp(during[1]))} height={height} />}
        {lines.map(line => (
          <g key={line}>
            <line className="grid" x1={LEFT} x2={width} y1={y(line)} y2={y(line)} />
            <text className="axis" x={LEFT - 8} y={y(line) + 4} textAnchor="end">
              {line === 0 ? '0' : format(line).replace(/\.0(?= |$)/, '')}
            </text>
          </g>
        ))}
        {layers.map(({ base, values }, index) => (
          <g key={series[index]?.name} className={series[index]?.color}>
            {stacked && <path className="area" d={area(values, base, x, y)} />}
            <path className={stacked ? 'stroke thin' : 'stroke'} d={curve(values, x, y)} />
          </g>
        ))}
        {length > 1 && (
          <>
            <text className="axis" x={LEFT} y={height - 4}>
              {labels[0]}
            </text>
            <text className="axis" x={width} y={height - 4} textAnchor="end">
              {labels[length - 1]}
            </text>
          </>
        )}
        {shown !== null && <line className="cursor" x1={x(shown)} x2={x(shown)} y1={TOP} y2={height - BOTTOM} />}
      </svg>
    </figure>
  );
}

/** Wide enough to be seen, however short it was. */
function Shade({ from, to, height }: { from: number; to: number; height: number }) {
  return <rect className="during" x={from} width={Math.max(2, to - from)} y={TOP} height={height - BOTTOM - TOP} />;
}

function stack(series: Series[]): { base: number[]; values: number[] }[] {
  let base: number[] = (series[0]?.values ?? []).map(() => 0);
  return series.map(({ values }) => {
    const upper = values.map((value, at) => (value ?? 0) + (base[at] ?? 0));
    const layer = { base, values: upper };
    base = upper;
    return layer;
  });
}

type Scale = (value: number) => number;

function curve(values: (number | null)[], x: Scale, y: Scale): string {
  let pen = 'M';
  return values
    .map((value, at) => {
      if (value === null) {
        pen = 'M';
        return '';
      }
      // One that has none beside it is a dot.
      const alone = pen === 'M' && values[at + 1] == null;
      const part = `${pen}${x(at).toFixed(1)} ${y(value).toFixed(1)}${alone ? 'h0' : ''}`;
      pen = 'L';
      return part;
    })
    .join('');
}

function area(values: (number | null)[], base: number[], x: Scale, y: Scale): string {
  const upper = values.map((value, at) => `${x(at).toFixed(1)} ${y(value ?? 0).toFixed(1)}`);
  const lower = base.map((value, at) => `${x(at).toFixed(1)} ${y(value).toFixed(1)}`).reverse();
  return upper.length ? `M${upper.concat(lower).join('L')}Z` : '';
}
