// Translate: streams while somebody types; words by confidence, links, alternatives, n-best, glossary, link, file.
import { html, useEffect, useRef, useState, post, stream, useWork, ModelSelect, Range, TextBox, Problem, Busy, Meter, Field, number } from "../lib.js";
import { Ribbon, Legend } from "../ribbon.js";
import { examplesOf, split } from "../sentences.js";
import { save } from "../offline.js";

const DELAY = 220; // milliseconds without a key before the server is asked

export const translators = (models) => models.filter((one) => one.task === "translate");
export const pick = (models, name) => models.find((one) => one.name === name) || models[0];

// Translations of a sentence by the server, or as they were found before with the same settings.
const known = new Map();
export async function translate(body, signal, onPart) {
  const key = JSON.stringify(body);
  if (known.has(key)) return known.get(key);
  let found = null;
  await stream("studio/translate", body, (message) => {
    if (message.error) throw new Error(message.error);
    if (message.part) onPart?.(message.part);
    if (message.done) found = message.done;
  }, signal);
  if (found) known.set(key, found);
  if (known.size > 200) known.delete(known.keys().next().value);
  return found || [];
}

function Alternatives({ body, result, at, choose, close }) {
  const words = result.raw.split(/\s+/);
  const prefix = words.slice(0, at).join(" ");
  const box = useRef();
  const { value, busy, problem } = useWork((signal) => post("studio/alternatives", { ...body, prefix }, signal), [result, at]);
  useEffect(() => { if (value) box.current?.querySelector("button")?.focus({ preventScroll: true }); }, [value]);
  return html`<div class="card" ref=${box} role="group" aria-label="Alternatives" onKeyDown=${(event) => event.key === "Escape" && close()}>
    <h3>Instead of “${result.words[at].text}”${prefix && html` after “${prefix}”`}</h3>
    <${Problem} problem=${problem} /><${Busy} busy=${busy}>Asking for the next words<//>
    <div class="options">${value?.alternatives.map((one) => html`
      <button type="button" key=${one.next + one.text} onClick=${() => choose(one)}>
        <b dir="auto">${one.next || "(end)"}</b><span><${Meter} value=${one.probability} /><span class="number">${number(one.probability, 2)}</span></span><span class="rest" dir="auto">${one.text}</span>
      </button>`)}</div>
    <p><button type="button" class="button" onClick=${close}>Close</button></p></div>`;
}

function SentenceCard({ body, languages, onResult }) {
  const [override, setOverride] = useState(null); // an alternative or another of the n best
  const [chosen, setChosen] = useState(null);
  const [part, setPart] = useState("");
  const { value, busy, problem } = useWork(async (signal) => {
    setPart("");
    const found = await translate(body, signal, setPart);
    setOverride(null); setChosen(null);
    return found;
  }, [JSON.stringify(body)], known.has(JSON.stringify(body)) ? 0 : DELAY);
  const shown = override || value?.[0];
  useEffect(() => { if (shown) onResult(shown); }, [shown]);
  return html`<section class="card" aria-busy=${busy} aria-label=${`Translation of ${body.text}`}>
    <${Problem} problem=${problem} />
    ${busy && part ? html`<p class="pending" aria-live="off" dir="auto">${part} …</p>` : shown ? html`<${Ribbon} result=${shown} languages=${languages} chosen=${chosen} onWord=${(at) => setChosen(chosen === at ? null : at)} />` : html`<p class="pending">${busy ? "…" : ""}</p>`}
    ${override && html`<p class="note">Continued from your choice. <button type="button" class="button" onClick=${() => { setOverride(null); setChosen(null); }}>Back to the best translation</button></p>`}
    ${shown && chosen !== null && chosen < shown.words.length && html`<${Alternatives} body=${body} result=${shown} at=${chosen} choose=${(one) => { setOverride(one); setChosen(null); }} close=${() => setChosen(null)} />`}
    ${value?.length > 1 && html`<div class="ranked" role="group" aria-label="The best translations">
      ${value.map((one, place) => html`<button type="button" key=${place} aria-pressed=${shown === one} onClick=${() => { setOverride(place ? one : null); setChosen(null); }}><span class="number">${one.score.toFixed(3)}</span><span dir="auto" lang=${languages[1]}>${one.text}</span></button>`)}</div>`}
  </section>`;
}

export const ExampleSelect = ({ examples, choose }) => examples.length > 0 && html`<${Field} label="Examples"><select class="short" value="" onChange=${(event) => { choose(event.target.value); event.target.value = ""; }}><option value="">Choose …</option>${examples.map((one) => html`<option key=${one} value=${one}>${one}</option>`)}</select><//>`;

export default function Translate({ models, params, change }) {
  const usable = translators(models);
  const model = pick(usable, params.model);
  const [copied, setCopied] = useState(false);
  const results = useRef(new Map());
  const text = params.text ?? examplesOf(model)[0] ?? "";
  const sentences = split(text);
  if (!model) return html`<p class="problem">No translator is served. Train one with <code>harken demo</code>, then open the studio again.</p>`;
  const beam = Number(params.beam ?? model.beam ?? 5), nbest = Number(params.nbest ?? 1), penalty = Number(params.penalty ?? model.length_penalty ?? 1);
  const body = { model: model.name, beam, nbest, length_penalty: penalty, glossary: params.glossary ?? "" };
  const copy = async () => { change({ text }); await navigator.clipboard?.writeText(location.href); setCopied(true); setTimeout(() => setCopied(false), 1500); };
  return html`
    <div class="bar">
      <${ModelSelect} models=${usable} value=${model.name} onChange=${(name) => change({ model: name, beam: null, penalty: null })} />
      <${Range} label="Beam" min=${1} max=${12} value=${beam} onInput=${(value) => change({ beam: value })} />
      <${Range} label="Length penalty" min=${0} max=${2} step=${0.1} value=${penalty} onInput=${(value) => change({ penalty: value })} show=${(value) => value.toFixed(1)} />
      <${Range} label="Best translations" min=${1} max=${8} value=${nbest} onInput=${(value) => change({ nbest: value })} />
      <${ExampleSelect} examples=${examplesOf(model)} choose=${(one) => change({ text: one })} />
      <button type="button" class="button" onClick=${copy}>${copied ? "Copied" : "Copy link"}</button>
      <button type="button" class="button" onClick=${() => save(text, sentences.map((one) => results.current.get(one)).filter(Boolean), model)}>Save as HTML</button>
    </div>
    <${TextBox} label="Text" id="text" value=${text} rows=${2} lang=${model.languages[0]} onInput=${(value) => change({ text: value || " " })} autofocus=${true} placeholder="Type a sentence" />
    <details open=${Boolean(params.glossary)} style=${{ margin: "0 0 12px" }}><summary>Glossary: terms that must be translated as given</summary>
      <${TextBox} label="One term a line: source = target" value=${params.glossary ?? ""} onInput=${(value) => change({ glossary: value })} rows=${2} placeholder="cat = minou" />
    </details>
    <div aria-live="polite">${sentences.map((one, place) => html`<${SentenceCard} key=${place} body=${{ ...body, text: one }} languages=${model.languages} onResult=${(result) => results.current.set(one, result)} />`)}</div>
    ${sentences.length > 0 && html`<${Legend} attention=${model.attends !== false} unknown=${true} /><p class="note">Choose a word of the translation for other ways to go on from there.</p>`}`;
}
