// A sentence and its translation as two rows of words, with a line for every attention weight between them.
// A sentence too long for one row is cut into parts, each part of the source above the same part of the translation.
import { html, useLayoutEffect, useRef, useState, sum } from "./lib.js";

const FAINT = 0.12; // weights below this are not drawn
const GAP = 4; // pixels between words
const tint = (share) => (share > 0.02 ? `color-mix(in srgb, var(--warm) ${Math.round(45 * share)}%, transparent)` : "transparent");
const blue = (share) => (share > 0.02 ? `color-mix(in srgb, var(--ink) ${Math.round(38 * share)}%, transparent)` : "transparent");

// Where words are drawn, how many parts they need, and whether one side runs from right to left and the other does not;
// measured again whenever the box changes its size.
function usePlaces(box, dependencies) {
  const [places, setPlaces] = useState(null);
  useLayoutEffect(() => {
    const measure = () => {
      const frame = box.current.getBoundingClientRect();
      const of = (row) => [...box.current.querySelectorAll(`.${row} .word`)].map((word) => {
        const place = word.getBoundingClientRect();
        return { x: place.left + place.width / 2 - frame.left, top: place.top - frame.top, bottom: place.bottom - frame.top, width: place.width };
      });
      const source = of("source"), target = of("target"), longest = Math.max(...[source, target].map((row) => sum(row.map((word) => word.width + GAP))));
      const directions = new Set([...box.current.querySelectorAll(".words")].map((row) => getComputedStyle(row).direction));
      setPlaces({ source, target, opposite: directions.size > 1, parts: longest <= frame.width + GAP ? 1 : Math.ceil(longest / (0.9 * frame.width)) });
    };
    measure();
    const watcher = new ResizeObserver(measure);
    watcher.observe(box.current);
    return () => watcher.disconnect();
  }, [...dependencies, places?.parts, places?.opposite]);
  return places;
}

// The words of each part with their places in the sentence; all parts are about equally wide.
function cut(words, row, parts) {
  const widths = words.map((_, at) => row?.[at]?.width || 1), total = sum(widths), groups = Array.from({ length: parts }, () => []);
  let before = 0;
  words.forEach((word, at) => {
    groups[Math.floor((parts * (before + widths[at] / 2)) / total)].push([word, at]);
    before += widths[at];
  });
  return groups;
}

// A line for every weight that is not faint; where the words are cut into parts, and lines cross other words, the
// strongest of each target word, and all of the word that is pointed at.
function Links({ places, attention, active }) {
  if (!places || !attention) return null;
  const lines = [];
  attention.forEach((row, t) => row.forEach((weight, s) => {
    const from = places.source[s], to = places.target[t], chosen = active && active.at === (active.side === "target" ? t : s);
    if (!from || !to || weight < FAINT || (places.parts > 1 && !chosen && weight < Math.max(...row))) return;
    const [start, end] = to.top > from.top ? [from.bottom, to.top] : [from.top, to.bottom], middle = (start + end) / 2;
    lines.push(html`<path key=${`${t} ${s}`} data-link=${`${t} ${s}`} d=${`M${from.x} ${start} C${from.x} ${middle} ${to.x} ${middle} ${to.x} ${end}`} stroke-width=${1 + 2 * weight} opacity=${active && !chosen ? 0.05 : Math.min(1, (active ? 0.3 : 0.12) + 0.7 * weight)} />`);
  }));
  return html`<svg aria-hidden="true">${lines}</svg>`;
}

// The words of a result: `onWord(place)` where a target word is chosen; `chosen` is that word.
export function Ribbon({ result, languages = [], onWord, chosen, differs = [], gone = [], onSource }) {
  const box = useRef();
  const [hovered, setHovered] = useState(null);
  const [pinned, setPinned] = useState(null);
  const active = hovered || pinned;
  const places = usePlaces(box, [result]);
  const weight = (t, s) => result.attention?.[t]?.[s] ?? 0;
  const column = active?.side === "source" ? Math.max(...result.words.map((_, t) => weight(t, active.at)), 0.01) : 1;
  const mark = (side, at) => ({
    onMouseEnter: () => setHovered({ side, at }), onMouseLeave: () => setHovered(null),
    onFocus: () => setHovered({ side, at }), onBlur: () => setHovered(null),
  });
  const parts = places?.parts ?? 1, sources = cut(result.source_words, places?.source, parts), targets = cut(result.words, places?.target, parts);
  return html`
    <div class=${`ribbon ${result.attention ? "" : "bare"} ${parts > 1 ? "wrapped" : ""} ${places?.opposite ? "opposite" : ""}`} ref=${box}>
      <${Links} places=${places} attention=${result.attention} active=${active} />
      ${sources.map((words, part) => html`<div class="words source" role="group" aria-label="Source words" dir="auto" lang=${languages[0]}>
        ${words.map(([word, s]) => html`<button key=${s} type="button" class=${`word ${word.unknown ? "unknown" : ""} ${gone.includes(s) ? "gone" : ""} ${active?.side === "source" && active.at === s ? "on" : ""}`}
          style=${{ "--tint": active?.side === "target" ? blue(weight(active.at, s)) : "transparent" }} aria-pressed=${onSource ? gone.includes(s) : pinned?.side === "source" && pinned.at === s}
          title=${word.unknown ? "The model has never seen this word" : onSource ? "Switch this word off" : null} data-at=${s}
          onClick=${() => (onSource ? onSource(s) : setPinned(pinned?.side === "source" && pinned.at === s ? null : { side: "source", at: s }))} ...${mark("source", s)}>${word.text}</button>`)}
      </div>
      <div class="words target" role="group" aria-label="Translation" dir="auto" lang=${languages[1] ?? ""}>
        ${targets[part].map(([word, t]) => html`<button key=${t} type="button" class=${`word ${word.probability < 0.5 ? "unsure" : ""} ${differs.includes(t) ? "differs" : ""} ${chosen === t || (active?.side === "target" && active.at === t) ? "on" : ""}`}
          style=${{ "--tint": active?.side === "source" ? blue(weight(t, active.at) / column) : tint(1 - word.probability) }}
          title=${`probability ${word.probability.toFixed(2)}`} aria-expanded=${onWord ? chosen === t : null} data-at=${t} data-p=${word.probability}
          onClick=${() => onWord && onWord(t)} ...${mark("target", t)}>${word.text}</button>`)}
      </div>`)}
    </div>`;
}

export const Legend = ({ attention = true, unknown = false }) => html`
  <p class="legend"><span><i></i>unsure to sure</span>${attention ? html`<span>Lines: attention; of a sentence in several rows, the strongest of each word. Hover or focus a word for all of its lines.</span>` : html`<span>This model has no attention, so no links are drawn.</span>`}
  ${unknown && html`<span>Dashed: a word the model has never seen.</span>`}</p>`;
