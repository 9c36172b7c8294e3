// Look inside: heads, with words and heads switched off; gates over time; gradients; embeddings.
import { html, useEffect, useState, post, useWork, ModelSelect, Range, TextBox, Problem, Busy, Meter, Field, chooseByArrow, number } from "../lib.js";
import { Ribbon, Legend } from "../ribbon.js";
import { Figures, Heat, Pixels } from "../figure.js";
import { Table } from "../charts.js";
import { examplesOf } from "../sentences.js";
import { pick } from "./translate.js";

const PARTS = { attention: "Attention", gates: "Gates", gradients: "Gradients", neighbours: "Embeddings" };
const KINDS = { cross: "Decoder to source", encoder: "Encoder to itself", decoder: "Decoder to itself" };
const same = (one, other) => one.kind === other.kind && one.layer === other.layer && one.head === other.head;
const toggled = (list, item, equal = (one, other) => one === other) => (list.some((one) => equal(one, item)) ? list.filter((one) => !equal(one, item)) : [...list, item]);

function HeadGrid({ weights, chosen, choose, isOff }) {
  return html`<div class="headgrid" style=${{ gridTemplateColumns: `max-content repeat(${weights[0].length}, max-content)` }}>
    ${weights.map((heads, layer) => html`<span class="name">layer ${layer + 1}</span>${heads.map((head, at) => html`
      <button type="button" key=${at} class=${isOff(layer, at) ? "off" : ""} aria-pressed=${chosen.layer === layer && chosen.head === at} aria-label=${`Layer ${layer + 1}, head ${at + 1}${isOff(layer, at) ? ", switched off" : ""}`} onClick=${() => choose({ layer, head: at })}><${Pixels} values=${head} /></button>`)}`)}</div>`;
}

function Changed({ value }) {
  const { changed } = value;
  const rows = value.words.map((word, at) => [word.text, changed.with[at].toFixed(3), changed.without[at].toFixed(3), (changed.without[at] - changed.with[at]).toFixed(3)]);
  return html`<div class="card"><h2>What changes</h2>
    <p>All parts: <b dir="auto">${value.text}</b></p><p>Without them: <b class="changed" dir="auto">${changed.text}</b>${changed.text === value.text && html` <span class="number">(the same)</span>`}</p>
    <p class="note">log P of the first translation: ${number(changed.log_probability[0])} with all parts, ${number(changed.log_probability[1])} without. Each word under teacher forcing:</p>
    <${Table} head=${["word", "probability", "without", "difference"]} rows=${rows} /></div>`;
}

function Attention({ model, text }) {
  const [kind, setKind] = useState("cross");
  const [head, setHead] = useState({ layer: 0, head: 0 });
  const [threshold, setThreshold] = useState(0);
  const [heads, setHeads] = useState([]);
  const [words, setWords] = useState([]);
  useEffect(() => { setHeads([]); setWords([]); }, [model.name, text]);
  const { value, busy, problem } = useWork((signal) => post("studio/inside", { model: model.name, text, heads, words }, signal), [model.name, text, JSON.stringify([heads, words])], 250);
  const kinds = Object.keys(value?.heads || {}), shown = kinds.includes(kind) ? kind : kinds[0];
  const map = shown && value.heads[shown];
  const layer = map && Math.min(head.layer, map.weights.length - 1), at = map && Math.min(head.head, map.weights[0].length - 1);
  const matrix = map?.weights[layer][at];
  const current = { kind: shown, layer, head: at }, off = heads.some((one) => same(one, current));
  const single = map && map.weights.length === 1 && map.weights[0].length === 1;
  return html`
    <${Problem} problem=${problem} /><p><${Busy} busy=${busy} /></p>
    ${value && html`<div class="card"><h2>Translation</h2><p class="note">Choose a source word to switch it off: the model then reads an unknown word in its place.</p>
      <${Ribbon} result=${value} languages=${model.languages} gone=${words} onSource=${(place) => setWords(toggled(words, place))} /><${Legend} attention=${Boolean(value.attention)} /></div>`}
    ${value?.changed && html`<${Changed} value=${value} />`}
    ${value && !map && html`<p class="note">This model has no attention heads. Its gates and gradients are in the other parts of this view.</p>`}
    ${map && html`<div class="card"><h2>Heads</h2>
      <div class="bar">
        ${kinds.length > 1 && html`<div class="chips" role="group" aria-label="Kind of attention">${kinds.map((one) => html`<button type="button" class="button" key=${one} aria-pressed=${one === shown} onClick=${() => setKind(one)}>${KINDS[one]}</button>`)}</div>`}
        <${Range} label="Hide weights below" min=${0} max=${0.6} step=${0.02} value=${threshold} onInput=${setThreshold} show=${(share) => share.toFixed(2)} />
        ${!single && html`<button type="button" class="button" aria-pressed=${off} onClick=${() => setHeads(toggled(heads, current, same))}>${off ? "Switch this head on" : "Switch this head off"}</button>`}
        ${(heads.length > 0 || words.length > 0) && html`<button type="button" class="button" onClick=${() => { setHeads([]); setWords([]); }}>Everything on</button>`}
      </div>
      <div class="panels">${!single && html`<${HeadGrid} weights=${map.weights} chosen=${{ layer, head: at }} choose=${setHead} isOff=${(l, h) => heads.some((one) => same(one, { kind: shown, layer: l, head: h }))} />`}
        <div class="panel"><h3>${single ? KINDS[shown] : `${KINDS[shown]}, layer ${layer + 1}, head ${at + 1}`}: rows attend to columns</h3>
        <${Heat} panel=${{ rows: map.rows, columns: map.columns, values: matrix, strengths: matrix, title: "Attention weights" }} threshold=${threshold} /></div></div></div>`}`;
}

function Gates({ model, text }) {
  const { value, busy, problem } = useWork((signal) => post("studio/gates", { model: model.name, text }, signal), [model.name, text], 250);
  return html`<${Problem} problem=${problem} /><p><${Busy} busy=${busy} /></p>${value && html`<div class="card"><h2>${value.title}</h2><p class="note">Gates: empty is closed (0), full colour open (1). Candidates and states: blue above 0, orange below. Each row is one unit while the model reads the sentence.</p><${Figures} figures=${value.figures} /></div>`}`;
}

function Gradients({ model, models, params, change }) {
  const [asked, ask] = useState(0);
  const count = Number(params.sentences ?? 32), other = params.against ?? "";
  const { value, busy, problem } = useWork((signal) => (asked ? post("studio/gradients", { model: model.name, sentences: count, compare: other ? [other] : [] }, signal) : null), [asked]);
  return html`<p class="note">The gradient of the loss at the last word, or of the label, at every earlier step, over the model's own validation data.</p>
    <div class="bar"><${Range} label="Sentences" min=${8} max=${128} step=${8} value=${count} onInput=${(sentences) => change({ sentences })} />
      <${Field} label="Beside"><select value=${other} onChange=${(event) => change({ against: event.target.value })}><option value="">no other model</option>${models.filter((one) => one.name !== model.name && one.recurrent).map((one) => html`<option key=${one.name} value=${one.name} selected=${one.name === other}>${one.name}</option>`)}</select><//>
      <button type="button" class="button strong" disabled=${busy} onClick=${() => ask(asked + 1)}>Measure</button><${Busy} busy=${busy}>Going back through time<//></div>
    <${Problem} problem=${problem} />
    ${value && html`<div class="card">${Object.entries(value.verdicts).map(([name, { kind, sentence }]) => html`<p key=${name} class=${`verdict ${kind}`}><b>${name}</b>: ${sentence}</p>`)}<p class="note">${value.caption}</p><${Figures} figures=${value.figures} /><${Table} head=${value.columns} rows=${value.rows} /></div>`}`;
}

function Neighbours({ model, params, change }) {
  const word = params.word ?? "cat", side = params.side ?? "source";
  const { value, busy, problem } = useWork((signal) => (word.trim() ? post("studio/neighbours", { model: model.name, word, side }, signal) : null), [model.name, word, side], 250);
  return html`<div class="bar"><${Field} label="Word"><input type="search" value=${word} onInput=${(event) => change({ word: event.target.value || " " })} /><//>
      ${model.task === "translate" && html`<${Field} label="Vocabulary"><select value=${side} onChange=${(event) => change({ side: event.target.value })}>${["source", "target"].map((one) => html`<option key=${one} value=${one} selected=${one === side}>${one}</option>`)}</select><//>`}<${Busy} busy=${busy} /></div>
    <${Problem} problem=${problem} />
    ${value && html`<div class="card"><h2>Nearest to “${value.word}” of ${value.size.toLocaleString("en")} tokens, by cosine in ${value.width} dimensions</h2>
      ${value.examples && html`<p class="note">Learned from ${value.examples.toLocaleString("en")} training examples and nothing else: the neighbours are words that are used alike in them.${value.examples < 1e6 && " So small a corpus says little about meaning."}</p>`}
      <div class="options">${value.neighbours.map((one) => html`<button type="button" key=${one.word} onClick=${() => change({ word: one.word })}><b dir="auto">${one.word}</b><span><${Meter} value=${Math.max(0, one.cosine)} /></span><span class="number">${one.cosine.toFixed(3)}</span></button>`)}</div></div>`}`;
}

// Gates and gradients where no model is recurrent: the studio trains a small one, once.
function Training({ training, train }) {
  useEffect(train, []);
  if (training?.problem) return html`<${Problem} problem=${training.problem} /><p class="note">No model here is recurrent and reads text. Train one with harken train phrasebook-attention --out runs/attention, then open the studio again.</p>`;
  return html`<div class="card" role="status"><h2>Training a small LSTM</h2><p>No model here is recurrent and reads text, so the studio trains one of its own that labels short reviews. It takes less than a minute, once.</p>
    <progress aria-label="Progress of the training" value=${training?.done}></progress><p class="note">${training?.say}</p></div>`;
}

export default function Inside({ models, params, change, training, train }) {
  const part = PARTS[params.part] ? params.part : "attention";
  const usable = part === "attention" ? models.filter((one) => one.task === "translate") : part === "neighbours" ? models : models.filter((one) => one.recurrent && (part === "gradients" || one.reads_text));
  const model = pick(usable, params.model);
  const text = params.text ?? examplesOf(model)[0] ?? "";
  return html`
    <div class="chips" role="group" aria-label="What to look at" onKeyDown=${chooseByArrow} style=${{ marginBottom: "14px" }}>${Object.entries(PARTS).map(([key, title]) => html`<button type="button" class="button" key=${key} aria-pressed=${key === part} onClick=${() => change({ part: key })}>${title}</button>`)}</div>
    ${!model ? (part === "gates" || part === "gradients" ? html`<${Training} training=${training} train=${train} />` : html`<p class="problem">No model here has this part.</p>`) : html`
    <div class="bar"><${ModelSelect} models=${usable} value=${model.name} onChange=${(name) => change({ model: name })} /></div>
    ${(part === "attention" || part === "gates") && html`<${TextBox} label="Sentence" rows=${2} value=${text} onInput=${(value) => change({ text: value || " " })} />`}
    ${part === "attention" && text.trim() && html`<${Attention} key=${model.name} model=${model} text=${text} />`}
    ${part === "gates" && text.trim() && html`<${Gates} key=${model.name} model=${model} text=${text} />`}
    ${part !== "gradients" && part !== "neighbours" && !text.trim() && html`<p class="note">Type a sentence of the kind that this model was trained on.</p>`}
    ${part === "gradients" && html`<${Gradients} key=${model.name} model=${model} models=${models} params=${params} change=${change} />`}
    ${part === "neighbours" && html`<${Neighbours} key=${model.name} model=${model} params=${params} change=${change} />`}`}`;
}
