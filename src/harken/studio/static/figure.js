// Figures of harken.inspection: every kind of panel that the command line can draw.
import { html, useEffect, useRef, useState, showTip, hideTip, Scroll } from "./lib.js";
import { Lines, Bars, Numbers } from "./charts.js";

const shade = (strength) => (Math.abs(strength) < 0.004 ? "var(--empty)" : `color-mix(in srgb, var(--${strength < 0 ? "warm" : "ink"}) ${Math.round(100 * Math.abs(strength))}%, var(--empty))`);

const linear = (part) => (part <= 10 ? part / 3294.6 : ((part / 255 + 0.055) / 1.055) ** 2.4);
// Black or white, whichever has more contrast on a cell: of the two, one always reaches 4.5 : 1.
function textOn(strength) {
  const ink = rgb(strength < 0 ? "--warm" : "--ink"), empty = rgb("--empty"), share = Math.abs(strength);
  const [red, green, blue] = ink.map((part, at) => linear(empty[at] + share * (part - empty[at])));
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.179 ? "#000" : "#fff";
}

export function Heat({ panel, onRow, onColumn, offRows = [], offColumns = [], threshold = 0 }) {
  const [on, setOn] = useState(null);
  useTheme();
  const dense = panel.columns.length > 16 || panel.rows.length > 18;
  const point = (row, column, event) => {
    setOn([row, column]);
    showTip(`${panel.rows[row]} ← ${panel.columns[column]}\n${Number(panel.values[row][column] ?? 0).toFixed(3)}`, event);
  };
  const name = (text, at, press, off) => (press ? html`<button type="button" aria-pressed=${off.includes(at)} onClick=${() => press(at)} title="Switch this word off">${text}</button>` : text);
  return html`<${Scroll} label=${panel.title || "Weights"}><table class=${`heat ${dense ? "dense" : ""}`} onPointerLeave=${() => { setOn(null); hideTip(); }}>
    <thead><tr><td style=${{ background: "none" }}></td>${panel.columns.map((text, at) => html`<th key=${at} scope="col" class=${on?.[1] === at ? "on" : ""}><span dir="auto">${name(text, at, onColumn, offColumns)}</span></th>`)}</tr></thead>
    <tbody>${panel.rows.map((text, row) => html`<tr key=${row}><th scope="row" dir="auto" class=${on?.[0] === row ? "on" : ""}>${panel.row_names === false ? "" : name(text, row, onRow, offRows)}</th>
      ${panel.columns.map((_, column) => { const strength = panel.strengths[row][column], shown = Math.abs(strength) >= threshold ? strength : 0; return html`<td key=${column} style=${{ background: shade(shown), color: dense ? null : textOn(shown) }} onPointerMove=${(event) => point(row, column, event)}>${dense || panel.form === "" ? html`<span class="unseen">${Number(panel.values[row][column]).toFixed(2)}</span>` : Math.abs(shown) > 0.045 ? Number(panel.values[row][column]).toFixed(2).replace(/^0/, "").replace("1.00", "1") : ""}</td>`; })}</tr>`)}</tbody>
  </table><//>`;
}

// The current value of a colour, for canvases; drawn again when the theme changes.
export function useTheme() {
  const [count, setCount] = useState(0);
  useEffect(() => {
    const again = () => setCount((old) => old + 1);
    addEventListener("themechange", again);
    return () => removeEventListener("themechange", again);
  }, []);
  return count;
}
const rgb = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim().match(/[0-9a-f]{2}/gi).map((part) => parseInt(part, 16));

// (rows, columns) of weights from 0 to 1 as pixels.
export function Pixels({ values, scale = 1, up = false, style, label }) {
  const canvas = useRef(), theme = useTheme();
  useEffect(() => {
    const rows = values.length, columns = values[0]?.length || 0, ink = rgb("--ink"), paper = rgb("--empty");
    if (!columns) return;
    Object.assign(canvas.current, { width: columns, height: rows });
    const context = canvas.current.getContext("2d"), image = context.createImageData(columns, rows);
    values.forEach((row, y) => row.forEach((value, x) => {
      const share = Math.min(1, Math.max(0, value * scale)), place = 4 * ((up ? rows - 1 - y : y) * columns + x);
      for (let part = 0; part < 3; part += 1) image.data[place + part] = paper[part] + share * (ink[part] - paper[part]);
      image.data[place + 3] = 255;
    }));
    context.putImageData(image, 0, 0);
  }, [values, theme]);
  return html`<canvas ref=${canvas} style=${style} role=${label ? "img" : null} aria-label=${label} aria-hidden=${label ? null : "true"}></canvas>`;
}

function Raster({ panel }) {
  const [left, right] = panel.x_limits, named = panel.rows.length > 0;
  const place = (event) => {
    const box = event.currentTarget.getBoundingClientRect(), x = (event.clientX - box.left) / box.width, y = (event.clientY - box.top) / box.height;
    const row = Math.min(panel.values.length - 1, Math.floor(y * panel.values.length)), column = Math.min(panel.values[0].length - 1, Math.floor(x * panel.values[0].length));
    const value = panel.values[named ? row : panel.values.length - 1 - row][column] / 255;
    showTip(`${named ? `${panel.rows[row]}, ` : ""}${(left + x * (right - left)).toFixed(2)} ${panel.x_label}: ${value.toFixed(2)}`, event);
  };
  return html`<div style=${{ display: "grid", gridTemplateColumns: named ? "max-content 1fr" : "1fr", gap: "0 6px", minWidth: "min(100%, 560px)" }}>
    ${named && html`<div style=${{ display: "grid", gridTemplateRows: `repeat(${panel.rows.length}, 1fr)`, fontSize: "12px", textAlign: "right", color: "var(--muted)" }}>${panel.rows.map((row, at) => html`<span key=${at}>${row}</span>`)}</div>`}
    <div style=${{ position: "relative" }}>
      ${panel.labels?.length > 0 && html`<div style=${{ position: "relative", height: "20px", fontSize: "13px" }}>${panel.labels.map(([at, text], index) => html`<span key=${index} style=${{ position: "absolute", left: `${(100 * (at - left)) / (right - left)}%`, transform: "translateX(-50%)", fontWeight: 650 }}>${text}</span>`)}</div>`}
      <div onPointerMove=${place} onPointerLeave=${hideTip}><${Pixels} values=${panel.values} scale=${1 / 255} up=${!named} label=${panel.title || panel.y_label} style=${{ width: "100%", height: `${named ? Math.max(60, 18 * panel.rows.length) : 180}px`, imageRendering: "pixelated", display: "block" }} /></div>
      <p class="note" style=${{ display: "flex", justifyContent: "space-between" }}><span>${left.toFixed(1)}</span><span>${panel.x_label}</span><span>${right.toFixed(1)}</span></p>
    </div></div>`;
}

const Tokens = ({ panel }) => html`<p class="tokens" dir="auto" onPointerLeave=${hideTip}>${panel.tokens.map((token, at) => html`<span key=${at} style=${{ background: `color-mix(in srgb, var(--warm) ${Math.round(45 * Math.min(1, panel.values[at] / panel.high))}%, transparent)` }} onPointerMove=${(event) => showTip(`${token}\n${panel.values[at].toFixed(2)} ${panel.unit}`, event)}>${token}</span> `)}</p><${Numbers} head=${["token", panel.unit]} rows=${() => panel.tokens.map((token, at) => [token, panel.values[at]])} />`;

function ImageMap({ pixels, weights, caption, boxes = [] }) {
  const canvas = useRef();
  useEffect(() => {
    const rows = pixels.length, columns = pixels[0].length, image = new ImageData(columns, rows);
    pixels.forEach((row, y) => row.forEach((parts, x) => {
      const light = weights ? 0.15 + 0.85 * weights[Math.floor((y * weights.length) / rows)][Math.floor((x * weights[0].length) / columns)] : 1;
      image.data.set([...parts.map((part) => part * light), 255], 4 * (y * columns + x));
    }));
    Object.assign(canvas.current, { width: columns, height: rows });
    const context = canvas.current.getContext("2d");
    context.putImageData(image, 0, 0);
    context.strokeStyle = "#ffa46e";
    for (const [left, top, right, bottom] of boxes) context.strokeRect(left * columns, top * rows, (right - left) * columns, (bottom - top) * rows);
  }, [pixels, weights]);
  return html`<figure><canvas ref=${canvas} role="img" aria-label=${caption || "the image"}></canvas><figcaption dir="auto">${caption || "image"}</figcaption></figure>`;
}

const Images = ({ panel }) => html`<div class="images"><${ImageMap} pixels=${panel.pixels} boxes=${panel.boxes} />${panel.words.map((word, at) => html`<${ImageMap} key=${at} pixels=${panel.pixels} weights=${panel.weights[at]} caption=${word} />`)}</div>`;

function Strips({ panel }) {
  const high = 46, count = panel.values.length, x = (at) => (560 * (at + 0.5)) / count;
  return html`<svg class="chart" viewBox=${`0 0 640 ${high * panel.names.length + 10}`} role="img" aria-label=${panel.title || "signal"}>
    ${panel.weights.map((weight, at) => html`<rect key=${at} x=${80 + (560 * at) / count} width=${560 / count + 0.5} y="0" height=${high * panel.names.length} fill="var(--s5)" opacity=${0.6 * weight} />`)}
    ${panel.names.map((name, row) => html`<g key=${row}><text x="74" y=${high * (row + 0.6)} text-anchor="end">${name}</text><polyline fill="none" stroke="var(--ink)" stroke-width="1.5" points=${panel.values.map((frame, at) => `${80 + x(at)},${high * (row + 0.95) - 0.85 * high * frame[row]}`).join(" ")} /></g>`)}</svg>
    <${Numbers} head=${[panel.x_label, "weight", ...panel.names]} rows=${() => panel.values.map((frame, at) => [at + 1, panel.weights[at], ...frame])} />`;
}

export function Strokes({ panel }) {
  return html`<div class="images">${panel.drawings.map((strokes, at) => {
    const points = strokes.flat(), xs = points.map((one) => one[0]), ys = points.map((one) => one[1]);
    const [left, top, wide, high] = [Math.min(...xs), Math.min(...ys), Math.max(...xs) - Math.min(...xs), Math.max(...ys) - Math.min(...ys)];
    return html`<figure key=${at}><svg class="ink" viewBox=${`${left - 2} ${top - 2} ${wide + 4} ${high + 4}`} role="img" aria-label=${panel.captions[at] || "drawing"}>${strokes.map((one, place) => html`<path key=${place} d=${`M${one.map((point) => point.join(" ")).join("L")}`} stroke-width=${Math.max(wide, high) / 160} />`)}</svg><figcaption>${panel.captions[at]}</figcaption></figure>`;
  })}</div>`;
}

const KINDS = { lines: Lines, bars: Bars, heat: Heat, raster: Raster, tokens: Tokens, images: Images, strips: Strips, strokes: Strokes };
const WIDE = new Set(["lines", "bars", "raster", "strips", "tokens", "images"]);

export const Panel = ({ panel, label }) => {
  const Kind = KINDS[panel.kind];
  return html`<div class=${`panel ${WIDE.has(panel.kind) ? "wide" : ""} ${panel.kind}`}>${panel.title && html`<h3>${panel.title}</h3>`}${Kind ? html`<${Kind} panel=${panel} label=${label} />` : html`<p class="note">A ${panel.kind} is drawn by the command line alone.</p>`}</div>`;
};

// Figures one below the other; where all have names, buttons choose one of them.
export function Figures({ figures }) {
  const [chosen, choose] = useState(0);
  const named = figures.length > 1 && figures.every((one) => one.name);
  const shown = named ? [figures[Math.min(chosen, figures.length - 1)]] : figures;
  return html`<div class="figures">
    ${named && html`<div class="chips" role="group" aria-label="Layer">${figures.map((one, at) => html`<button type="button" class="button" key=${one.name} aria-pressed=${at === chosen} onClick=${() => choose(at)}>${one.name}</button>`)}</div>`}
    ${shown.map((one, at) => html`<section key=${one.name || at}>${one.title && html`<h3 style=${{ margin: "0 0 8px" }}>${one.title}</h3>`}<div class="panels">${one.panels.map((panel, place) => html`<${Panel} key=${place} panel=${panel} label=${one.title} />`)}</div>${one.note && html`<p class="note" style=${{ marginTop: "6px" }}>${one.note}</p>`}</section>`)}</div>`;
}
