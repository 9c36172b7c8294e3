// Lines and bars as SVG, with a tip at the pointer, a legend, and the numbers as a table.
import { html, useLayoutEffect, useRef, useState, showTip, hideTip, number, Scroll } from "./lib.js";
import { scale } from "./scales.js";

const MOST = 700, LEFT = 66, RIGHT = 14, TOP = 12, BOTTOM = 44;
export const colour = (index) => `var(--s${((index % 8) + 8) % 8})`;
function ramp(place, count) {
  const at = (4 * place) / Math.max(count - 1, 1), low = Math.min(Math.floor(at), 3);
  return `color-mix(in srgb, var(--r${low + 1}) ${Math.round(100 * (at - low))}%, var(--r${low}))`;
}
const colourOf = (panel, series, place) => (panel.ordered ? ramp(place, panel.series.length) : colour(series.colour ?? place));
// Lines of one colour differ in their dashes: full, then dashed, dotted, and both.
const DASHES = [null, "7 4", "2 3", "9 3 2 3"];
function dashOf(panel, series, place) {
  if (panel.ordered || (series.colour ?? null) === null) return series.dashed ? DASHES[1] : null;
  return DASHES[panel.series.slice(0, place).filter((one) => one.colour === series.colour).length % DASHES.length] || (series.dashed ? DASHES[1] : null);
}

function path(xs, ys, x, y) {
  let d = "", pen = false;
  xs.forEach((value, at) => {
    const other = ys[at];
    if (value === null || other === null || other === undefined || !Number.isFinite(other) || (y.log && other <= 0)) { pen = false; return; }
    d += `${pen ? "L" : "M"}${x.place(value).toFixed(1)} ${y.place(other).toFixed(1)}`;
    pen = true;
  });
  return d;
}

const area = (xs, low, high, x, y) => {
  const points = xs.map((value, at) => [value, low[at], high[at]]).filter((row) => row.every((one) => one !== null && Number.isFinite(one)) && (!y.log || row[1] > 0));
  return points.length ? `M${points.map(([at, , top]) => `${x.place(at).toFixed(1)} ${y.place(top).toFixed(1)}`).join("L")}L${points.reverse().map(([at, bottom]) => `${x.place(at).toFixed(1)} ${y.place(bottom).toFixed(1)}`).join("L")}Z` : "";
};

// The width of a chart's box, so that its letters are as large on a phone as on a desk.
function useWidth() {
  const box = useRef(), [width, setWidth] = useState(560);
  useLayoutEffect(() => {
    const watcher = new ResizeObserver(() => setWidth(Math.max(260, Math.min(MOST, Math.round(box.current.clientWidth)))));
    watcher.observe(box.current);
    return () => watcher.disconnect();
  }, []);
  return [box, width];
}
const height = (wide) => Math.round(Math.max(230, Math.min(320, 0.62 * wide)));

function Axes({ x, y, wide, tall, xLabel, yLabel, xTicks }) {
  return html`
    ${y.ticks.map((tick) => html`<g key=${`y${tick}`}><line class="grid" x1=${LEFT} x2=${wide - RIGHT} y1=${y.place(tick)} y2=${y.place(tick)} /><text x=${LEFT - 7} y=${y.place(tick) + 4} text-anchor="end">${y.text(tick)}</text></g>`)}
    <line class="axis" x1=${LEFT} x2=${wide - RIGHT} y1=${tall - BOTTOM} y2=${tall - BOTTOM} />
    ${(xTicks || x.ticks.map((tick) => [tick, x.text(tick)])).map(([at, text]) => html`<text key=${`x${at}`} x=${x.place(at)} y=${tall - BOTTOM + 17} text-anchor="middle">${text}</text>`)}
    <text x=${(LEFT + wide - RIGHT) / 2} y=${tall - 8} text-anchor="middle">${xLabel}</text>
    <text transform=${`translate(12 ${(TOP + tall - BOTTOM) / 2}) rotate(-90)`} text-anchor="middle" style=${{ fontSize: `${Math.min(12, (tall - TOP - BOTTOM) / (0.55 * yLabel.length))}px` }}>${yLabel}</text>`;
}

const Marks = ({ marks, x, y, wide, tall }) => (marks || []).map((mark) => mark.axis === "x"
  ? html`<g key=${mark.label + mark.at}><line class="mark" x1=${x.place(mark.at)} x2=${x.place(mark.at)} y1=${TOP} y2=${tall - BOTTOM} /><text x=${x.place(mark.at) + 4} y=${TOP + 10}>${mark.label}</text></g>`
  : html`<g key=${mark.label + mark.at}><line class="mark" x1=${LEFT} x2=${wide - RIGHT} y1=${y.place(mark.at)} y2=${y.place(mark.at)} /><text x=${wide - RIGHT} y=${y.place(mark.at) - 4} text-anchor="end">${mark.label}</text></g>`);

export function Lines({ panel, label }) {
  const [box, wide] = useWidth();
  const tall = panel.flat ? 170 : height(wide), clip = `clip${Math.abs(hash(panel.title + label + panel.series.length))}`;
  const xs = [...panel.series.flatMap((one) => one.x), ...(panel.bands || []).flatMap((one) => one.x)];
  const ys = [...panel.series.flatMap((one) => [...one.y, ...(one.low || []), ...(one.high || [])]), ...(panel.bands || []).flatMap((one) => [...one.low, ...one.high])];
  const x = scale(xs, { log: panel.log_x, limits: panel.x_limits, from: LEFT, to: wide - RIGHT, most: wide < 420 ? 4 : 6 });
  const y = scale(ys, { log: panel.log_y, limits: panel.y_limits, from: tall - BOTTOM, to: TOP, most: panel.flat ? 3 : 6 });
  const [at, setAt] = useState(null);
  const places = [...new Set(xs.filter((one) => one !== null))].sort((one, other) => one - other);
  const move = (event) => {
    const box = event.currentTarget.getBoundingClientRect(), pointer = ((event.clientX - box.left) / box.width) * wide;
    const near = places.reduce((best, one) => (Math.abs(x.place(one) - pointer) < Math.abs(x.place(best) - pointer) ? one : best), places[0]);
    if (near === undefined) return;
    setAt(near);
    const name = panel.names?.[places.indexOf(near)] ?? number(near, 5);
    const rows = panel.series.map((one) => [one.label, one.y[one.x.indexOf(near)]]).filter(([, value]) => value !== null && value !== undefined);
    showTip([`${panel.x_label} ${name}`, ...rows.slice(0, 14).map(([text, value]) => `${text || panel.y_label}: ${number(value, 4)}`)].join("\n"), event);
  };
  return html`
    <div ref=${box}><svg class="chart" viewBox=${`0 0 ${wide} ${tall}`} role="img" aria-label=${`${label || panel.title || panel.y_label}: ${panel.y_label} against ${panel.x_label}`} onPointerMove=${move} onPointerLeave=${() => { setAt(null); hideTip(); }}>
      <defs><clipPath id=${clip}><rect x=${LEFT} y=${TOP - 3} width=${wide - LEFT - RIGHT} height=${tall - TOP - BOTTOM + 6} /></clipPath></defs>
      <${Axes} x=${x} y=${y} wide=${wide} tall=${tall} xLabel=${panel.x_label} yLabel=${panel.y_label} xTicks=${panel.x_ticks?.length ? panel.x_ticks : null} />
      <g clip-path=${`url(#${clip})`}>
        ${panel.shade && panel.shade.map((weight, place) => weight > 0.02 && html`<rect key=${place} x=${x.place(panel.series[0].x[place]) - 2} width="4" y=${TOP} height=${tall - TOP - BOTTOM} fill="var(--s5)" opacity=${0.55 * weight} />`)}
        ${(panel.bands || []).map((one) => html`<path key=${one.label} d=${area(one.x, one.low, one.high, x, y)} fill=${colour(one.colour)} opacity="0.18" />`)}
        ${panel.series.map((one, place) => one.low && html`<path key=${`b${place}`} d=${area(one.x, one.low, one.high, x, y)} fill=${colourOf(panel, one, place)} opacity="0.15" />`)}
        ${panel.series.map((one, place) => html`<path key=${place} d=${path(one.x, one.y, x, y)} fill="none" stroke=${colourOf(panel, one, place)} stroke-width="2" stroke-dasharray=${dashOf(panel, one, place)} />`)}
        ${panel.series.map((one, place) => (panel.dots !== false ? one.x.length <= 40 : one.x.length === 1) && one.x.map((value, index) => one.y[index] !== null && (!y.log || one.y[index] > 0) && html`<circle key=${`${place} ${index}`} cx=${x.place(value)} cy=${y.place(one.y[index])} r="3" fill=${colourOf(panel, one, place)} />`))}
      </g>
      <${Marks} marks=${panel.marks} x=${x} y=${y} wide=${wide} tall=${tall} />
      ${at !== null && html`<line class="axis" x1=${x.place(at)} x2=${x.place(at)} y1=${TOP} y2=${tall - BOTTOM} />`}
    </svg></div>
    ${(panel.series.length > 1 || panel.series[0]?.note || panel.bands?.length > 0) && html`<p class="key">${panel.series.map((one, place) => html`<span key=${place}><svg viewBox="0 0 26 8" aria-hidden="true"><line x1="0" x2="26" y1="4" y2="4" stroke=${colourOf(panel, one, place)} stroke-width="3" stroke-dasharray=${dashOf(panel, one, place)} /></svg>${one.label}${one.note && html` <span class="number">(${one.note})</span>`}</span>`)}
      ${(panel.bands || []).map((one) => html`<span key=${one.label}><b style=${{ background: colour(one.colour), opacity: 0.35, height: "9px" }}></b>${one.label}</span>`)}</p>`}
    <${Numbers} head=${[panel.x_label, ...panel.series.map((one) => one.label || panel.y_label)]} rows=${() => places.slice(0, 300).map((place, index) => [panel.names?.[index] ?? number(place, 5), ...panel.series.map((one) => number(one.y[one.x.indexOf(place)], 4))])} />`;
}

const hash = (text) => [...text].reduce((value, letter) => (31 * value + letter.charCodeAt(0)) | 0, 7);

export function Bars({ panel, label }) {
  const [box, wide] = useWidth();
  const tall = height(wide), groups = panel.groups, count = panel.names.length;
  const y = scale(groups.flatMap((one) => [...one.values, ...(one.high || [])]), { log: panel.log_y, limits: panel.y_limits, from: tall - BOTTOM, to: TOP, zero: !panel.log_y });
  const slot = (wide - LEFT - RIGHT) / Math.max(count, 1), thick = Math.min(46, (0.8 * slot) / groups.length), letters = Math.max(4, Math.floor(slot / 7));
  const base = y.log ? tall - BOTTOM : y.inside(0);
  return html`
    <div ref=${box}><svg class="chart" viewBox=${`0 0 ${wide} ${tall}`} role="img" aria-label=${`${label || panel.title || panel.y_label}: bars`} onPointerLeave=${hideTip}>
      <${Axes} x=${{ place: (at) => LEFT + slot * (at + 0.5), ticks: [], text: String }} y=${y} wide=${wide} tall=${tall} xLabel=${panel.x_label} yLabel=${panel.y_label} xTicks=${panel.names.map((name, at) => [at, name.length > letters ? `${name.slice(0, letters - 1)}…` : name])} />
      ${groups.map((one, place) => one.values.map((value, at) => {
        if (value === null) return null;
        const left = LEFT + slot * (at + 0.5) + (place - groups.length / 2) * thick, top = y.inside(value);
        return html`<g key=${`${place} ${at}`} onPointerMove=${(event) => showTip(`${panel.names[at]}\n${one.label || panel.y_label}: ${number(value, 4)}`, event)}>
          <rect x=${left + 1} width=${thick - 2} y=${Math.min(top, base)} height=${Math.max(1, Math.abs(base - top))} fill=${colour(place)} rx="2" />
          ${one.low && html`<line class="axis" x1=${left + thick / 2} x2=${left + thick / 2} y1=${y.inside(one.low[at])} y2=${y.inside(one.high[at])} />`}</g>`;
      }))}
      <${Marks} marks=${panel.marks} x=${{ place: (at) => LEFT + slot * (at + 0.5) }} y=${y} wide=${wide} tall=${tall} />
    </svg></div>
    ${groups.length > 1 && html`<p class="key">${groups.map((one, place) => html`<span key=${place}><b style=${{ background: colour(place) }}></b>${one.label}</span>`)}</p>`}
    <${Numbers} head=${[panel.x_label, ...groups.map((one) => one.label || panel.y_label)]} rows=${() => panel.names.map((name, at) => [name, ...groups.map((one) => number(one.values[at], 4))])} />`;
}

// The numbers of a chart, made when somebody asks for them.
export function Numbers({ head, rows }) {
  const [open, setOpen] = useState(false);
  return html`<details onToggle=${(event) => setOpen(event.currentTarget.open)}><summary>Values as a table</summary>${open && html`<${Table} head=${head} rows=${rows()} />`}</details>`;
}

export const Table = ({ head, rows, best = -1 }) => html`<${Scroll} label="Table"><table class="plain"><thead><tr>${head.map((one, at) => html`<th key=${at} scope="col">${one}</th>`)}</tr></thead>
  <tbody>${rows.map((row, at) => html`<tr key=${at} class=${at === best ? "best" : ""}>${row.map((cell, column) => html`<td key=${column} dir="auto" class=${column && (typeof cell === "number" || /^[-−+×]?[\d.,]+([eE%×]|$)/.test(cell)) ? "n" : ""}>${typeof cell === "number" ? number(cell, 4) : cell}</td>`)}</tr>`)}</tbody></table><//>`;
