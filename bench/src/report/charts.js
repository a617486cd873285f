// What pages of figures are made of: text, tables, lines and bars. Each adds to the page; `show` shows it.
const page = [];
const show = () => document.body.insertAdjacentHTML('beforeend', page.join(''));

const escape = text => String(text).replace(/[&<>]/g, char => ({'&': '&amp;', '<': '&lt;', '>': '&gt;'}[char]));
const fixed = (number, digits = 2) => number == null ? '–' : number.toFixed(digits);
const note = text => page.push(`<p class="note">${escape(text)}</p>`);
const section = (title, text) => { page.push(`<h2>${escape(title)}</h2>`); note(text); };
const sum = numbers => numbers.reduce((sum, number) => sum + number, 0);
// Cells that begin with `!` are bad news.
const table = (head, rows) => {
  const cell = text => text.startsWith('!') ? `<td class="bad">${escape(text.slice(1))}</td>` : `<td>${escape(text)}</td>`;
  const body = rows.map(row => `<tr>${row.map(String).map(cell).join('')}</tr>`).join('');
  page.push(`<div class="wide"><table><tr>${head.map(name => `<th>${escape(name)}</th>`).join('')}</tr>${body}</table></div>`);
};

// Colours that people with any eyes tell apart.
const colours = ['#0072b2', '#d55e00', '#009e73', '#cc79a7', '#e69f00', '#56b4e9', '#7a7a7a', '#967800', 'currentColor'];
const colour = at => colours[at % colours.length];
const shaded = '#e69f00';
const short = number => {
  const [unit, scaled] = number >= 1e6 ? [' M', number / 1e6] : number >= 1e3 ? [' k', number / 1e3] : ['', number];
  return Number(scaled.toPrecision(3)) + unit;
};
const legend = names => page.push(`<p class="legend">${names.map((name, at) =>
  `<span><i style="background:${colour(at)}"></i>${escape(name)}</span>`).join(' ')}</p>`);
// `above`: what is drawn at less than nothing.
const svg = (height, parts, above = 0) => page.push(
  `<svg width="760" height="${height + above}" viewBox="0 ${-above} 760 ${height + above}">${parts.join('')}</svg>`);

// An axis: its range and its ticks; from nothing, or from the least power of ten, to a little more than the most.
const axis = (values, log) => {
  const most = Math.max(...values, 1e-9) * (log ? 1.8 : 1.08);
  if (!log) {
    const step = 10 ** Math.floor(Math.log10(most / 4)), stride = [1, 2, 5, 10].map(by => by * step).find(by => most / by <= 8);
    return {place: value => value / most, ticks: Array.from({length: Math.floor(most / stride) + 1}, (_, at) => at * stride)};
  }
  const least = Math.floor(Math.log10(Math.min(...values.filter(value => value > 0), most))), span = Math.log10(most) - least;
  const ticks = Array.from({length: Math.floor(span) + 1}, (_, at) => 10 ** (least + at));
  return {place: value => (Math.log10(Math.max(value, 10 ** least)) - least) / span, ticks};
};
// What happened, as marks: a line where it began, shade until it was over, its name above the chart, in the first row with room.
const marksOf = (events, {left, top, bottom, right, place}) => {
  const rows = [];
  const marks = events.map(({at_ms, until_ms, what}) => {
    const from = place(at_ms / 1e3), until = Math.min(place((until_ms ?? at_ms) / 1e3), right), width = what.length * 6.6;
    const start = Math.max(Math.min(from, right - width), left);
    let row = rows.findIndex(taken => taken < start);
    if (row < 0) row = rows.length;
    rows[row] = start + width + 8;
    const shade = until_ms == null ? '' : `<rect x="${from}" y="${top}" width="${Math.max(until - from, 1)}" height="${bottom - top}" fill="${shaded}" opacity=".2"/>`;
    return `${shade}<path d="M${from} ${top}V${bottom}" stroke="currentColor" stroke-dasharray="4 3"/>` +
      `<text x="${start}" y="${top - 4 - row * 16}" class="mark">${escape(what)}</text>`;
  });
  return {height: rows.length * 16, draw: marks.join('')};
};
// Lines of points, each with a name, and with events that happened meanwhile, if the first axis is of seconds. `log` is true, or of each axis.
const lines = (names, {log, marks, lines}) => {
  const points = lines.flatMap(line => line.points);
  const [x, y] = [0, 1].map(at => axis(points.map(point => point[at]), Array.isArray(log) ? log[at] : log));
  const left = value => 82 + x.place(value) * 666, top = value => 324 - y.place(value) * 312;
  const text = (x, y, anchor, text) => `<text x="${x}" y="${y}" text-anchor="${anchor}">${escape(text)}</text>`;
  const rule = (x1, y1, x2, y2) => `<path class="rule" d="M${x1} ${y1}L${x2} ${y2}"/>`;
  const events = marksOf(lines.flatMap(line => line.events ?? []), {left: 82, top: 12, bottom: 324, right: 748, place: left});
  svg(380, [events.draw,
    ...x.ticks.map(tick => rule(left(tick), 12, left(tick), 324) + text(left(tick), 342, 'middle', short(tick))),
    ...y.ticks.map(tick => rule(82, top(tick), 748, top(tick)) + text(76, top(tick) + 4, 'end', short(tick))),
    text(415, 366, 'middle', names[0]), `<g transform="rotate(-90 16 168)">${text(16, 168, 'middle', names[1])}</g>`,
    ...lines.map((line, at) => `<path fill="none" stroke-width="2" stroke="${colour(at)}" d="M${
      line.points.map(([x, y]) => `${left(x).toFixed(1)} ${top(y).toFixed(1)}`).join('L')}"/>` +
      (marks ? line.points.map(([x, y]) => `<circle cx="${left(x)}" cy="${top(y)}" r="3" fill="${colour(at)}"/>`).join('') : '')),
  ], events.height);
  legend(lines.map(line => line.name));
};
// Horizontal bars made of parts, each with a name and the values of its parts.
const bars = (x, parts, bars) => {
  const scale = 420 / Math.max(...bars.map(bar => sum(bar.values)), 1e-9);
  svg(60 + 34 * bars.length, [...bars.map((bar, row) => {
    const top = 10 + 34 * row;
    let from = 250;
    const rectangles = bar.values.map((value, part) => {
      const rectangle = `<rect x="${from}" y="${top}" width="${value * scale}" height="24" fill="${colour(part)}"/>`;
      from += value * scale;
      return rectangle;
    });
    return `<text x="12" y="${top + 17}">${escape(bar.name)}</text>${rectangles.join('')}` +
      `<text x="${from + 6}" y="${top + 17}">${short(sum(bar.values))}</text>`;
  }), `<text x="250" y="${40 + 34 * bars.length}">${escape(x)}</text>`]);
  if (parts.length) legend(parts);
};
