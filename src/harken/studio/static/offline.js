// Saves translations as one HTML file that needs no server: words, probabilities and links, with their own script.
import { download } from "./lib.js";

const escape = (text) => String(text).replace(/[&<>"]/g, (mark) => `&${{ "&": "amp", "<": "lt", ">": "gt", '"': "quot" }[mark]};`);

// Runs inside the saved file, on its own data.
function show(data, languages) {
  const root = document.querySelector("main");
  for (const one of data) {
    const box = root.appendChild(document.createElement("section"));
    const rows = [["source", one.source_words], ["target", one.words]].map(([side, words]) => {
      const row = box.appendChild(Object.assign(document.createElement("p"), { className: side, dir: "auto", lang: languages[side === "source" ? 0 : 1] ?? "" }));
      return words.map((word, at) => {
        const span = row.appendChild(Object.assign(document.createElement("span"), { textContent: word.text, tabIndex: 0 }));
        row.append(" ");
        if (side === "target") { span.title = `probability ${word.probability.toFixed(2)}`; span.style.setProperty("--unsure", 1 - word.probability); }
        if (word.unknown) { span.className = "unknown"; span.title = "a word the model has never seen"; }
        const point = (on) => one.attention?.forEach((weights, t) => weights.forEach((weight, s) => {
          if ((side === "target" ? t : s) !== at) return;
          rows[side === "target" ? 0 : 1][side === "target" ? s : t].style.setProperty("--link", on ? weight : 0);
        }));
        for (const [name, on] of [["mouseenter", true], ["focus", true], ["mouseleave", false], ["blur", false]]) span.addEventListener(name, () => point(on));
        return span;
      });
    });
  }
}

const STYLE = `:root{--paper:#fff;--text:#1b1f24;--muted:#59626d;--ink:#1c4280;--warm:#b04e18;--line:#dee2e8}@media(prefers-color-scheme:dark){:root{--paper:#15181d;--text:#e6e9ee;--muted:#9aa4b0;--ink:#8fbdff;--warm:#ffa46e;--line:#343a44}}
body{margin:24px auto;padding:0 18px;max-width:900px;background:var(--paper);color:var(--text);font:17px/1.6 system-ui,sans-serif}section{border-top:1px solid var(--line);padding:10px 0}p{margin:6px 0}.source{color:var(--muted)}.note{color:var(--muted);font-size:14px}
span{--unsure:0;--link:0;padding:1px 4px;border-radius:4px;background-image:linear-gradient(color-mix(in srgb,var(--ink) calc(var(--link)*45%),transparent) 0 0),linear-gradient(color-mix(in srgb,var(--warm) calc(var(--unsure)*45%),transparent) 0 0)}.unknown{border-bottom:2px dashed var(--warm)}`;

export function page(text, results, model) {
  const data = JSON.stringify(results.map(({ source_words, words, attention }) => ({ source_words, words, attention }))).replace(/</g, "\\u003c");
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">
<title>${escape(text.slice(0, 60))}</title><style>${STYLE}</style></head>
<body><h1>Translation</h1><p class="note">${escape(model.name)} (${escape(model.network)}). Shaded: words the model was unsure of. Hover or focus a word to see what it attends to.</p><main></main>
<script>(${show})(${data}, ${JSON.stringify(model.languages).replace(/</g, "\\u003c")});</${""}script></body></html>
`;
}

export const save = (text, results, model) => download("translation.html", page(text, results, model), "text/html");
