// Other jobs: one box for a text or a file, the answer, and the picture behind it.
import { html, useEffect, useRef, useState, get, post, useWork, ModelSelect, Range, TextBox, Field, Problem, Busy, Meter, number } from "../lib.js";
import { Figures } from "../figure.js";
import { record } from "../recorder.js";
import { pick } from "./translate.js";

// Handwriting, one point after the other.
function Ink({ points }) {
  const [count, setCount] = useState(0);
  useEffect(() => {
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) { setCount(points.length); return undefined; }
    let frame, at = 0;
    const draw = () => { at += Math.max(1, points.length / 240); setCount(Math.min(points.length, Math.round(at))); if (at < points.length) frame = requestAnimationFrame(draw); };
    draw();
    return () => cancelAnimationFrame(frame);
  }, [points]);
  const xs = points.map((one) => one[0]), ys = points.map((one) => one[1]);
  const [left, top] = [Math.min(...xs), Math.min(...ys)], [wide, high] = [Math.max(...xs) - left, Math.max(...ys) - top], edge = 0.04 * Math.max(wide, high, 1);
  let d = "", pen = false;
  points.slice(0, count).forEach(([x, y, up]) => { d += `${pen ? "L" : "M"}${x.toFixed(2)} ${y.toFixed(2)}`; pen = up < 0.5; });
  return html`<svg class="ink" viewBox=${`${left - edge} ${top - edge} ${wide + 2 * edge} ${high + 2 * edge}`} role="img" aria-label="Handwriting"><path d=${d} stroke-width=${Math.max(wide / 320, high / 40)} /></svg>`;
}

const Rows = ({ rows }) => rows.length > 0 && (rows[0].word !== undefined
  ? html`<p class="tagged" dir="auto">${rows.map((one, at) => html`<span key=${at} title=${`probability ${one.value.toFixed(2)}`}>${one.word}<small>${one.name} ${number(one.value, 2)}</small></span>`)}</p>`
  : html`<table class="plain"><tbody>${rows.map((one, at) => html`<tr key=${at}><td><b>${one.name}</b></td>${one.value !== undefined && html`<td style=${{ width: "180px" }}><${Meter} value=${one.value} /></td><td class="n">${number(one.value)}</td>`}</tr>`)}</tbody></table>`);

function Recorder({ onFile }) {
  const [recording, setRecording] = useState(null);
  const [problem, setProblem] = useState(null);
  const press = async () => {
    if (recording) { setRecording(null); onFile(await recording.stop()); return; }
    try { setRecording(await record()); setProblem(null); } catch { setProblem(new Error("the microphone cannot be used; choose a file instead")); }
  };
  return html`<button type="button" class="button" aria-pressed=${Boolean(recording)} onClick=${press}>${recording ? "Stop recording" : "Record"}</button><${Problem} problem=${problem} />`;
}

// One option of a job from its JSON schema: a slider, a number, a text, a box to tick or a list to choose from.
function Option({ name, schema, value, onInput }) {
  const kinds = schema.anyOf || [schema], kind = kinds.find((one) => one.type !== "null") || {}, label = name.replaceAll("_", " ");
  const unset = value === undefined ? schema.default : value;
  if (schema["x-slider"]) {
    const [min, max, step] = schema["x-slider"];
    return html`<${Range} label=${label} min=${min} max=${max} step=${step} value=${Math.min(max, unset ?? min)} show=${(shown) => (unset === null || unset === undefined ? "default" : String(shown))} onInput=${onInput} />`;
  }
  if (kind.type === "boolean") return html`<${Field} label=${label}><input type="checkbox" checked=${Boolean(unset)} onChange=${(event) => onInput(event.target.checked)} /><//>`;
  if (kind.enum) return html`<${Field} label=${label}><select value=${unset} onChange=${(event) => onInput(event.target.value)}>${kind.enum.map((one) => html`<option key=${one} value=${one} selected=${one === unset}>${one}</option>`)}</select><//>`;
  const isNumber = kind.type === "integer" || kind.type === "number";
  return html`<${Field} label=${label}><input type=${isNumber ? "number" : "text"} step=${kind.type === "integer" ? 1 : "any"} min=${kind.minimum} max=${kind.maximum} placeholder="default" title=${schema.description} value=${unset ?? ""} onInput=${(event) => onInput(event.target.value === "" ? null : isNumber ? Number(event.target.value) : event.target.value)} /><//>`;
}

// The options that the address of the page has, in their types.
function given(schema, params) {
  const found = {};
  for (const name of Object.keys(schema)) {
    if (params[name] === undefined || params[name] === null) continue;
    try { found[name] = JSON.parse(params[name]); } catch { found[name] = params[name]; }
  }
  return found;
}

function Job({ model, params, change }) {
  const { value: takes, problem: missing } = useWork((signal) => get(`studio/input?model=${encodeURIComponent(model.name)}`, signal), [model.name]);
  const [file, setFile] = useState(null);
  const [asked, ask] = useState(0);
  const schema = takes?.options ?? {}, options = given(schema, params), names = Object.keys(schema);
  const text = params.text ?? takes?.example ?? "";
  const onlyFiles = Boolean(takes?.file.length) && !takes.choices, live = takes?.live && !onlyFiles;
  const first = useRef(true);
  useEffect(() => { if (takes && first.current && !onlyFiles) { first.current = false; ask(1); } }, [takes]);
  const { value, busy, problem } = useWork((signal) => {
    if (!takes || (!asked && !file)) return null;
    const form = new FormData();
    form.append("model", model.name); form.append("text", text); form.append("options", JSON.stringify(options));
    if (file) form.append("file", file, file.name);
    return post("studio/answer", form, signal);
  }, [asked, file, live ? text : null], live ? 300 : 0);
  if (!takes) return html`<${Problem} problem=${missing} /><${Busy} busy=${!missing}>Loading the model<//>`;
  const option = (name) => html`<${Option} key=${name} name=${name} schema=${schema[name]} value=${options[name]} onInput=${(next) => change({ [name]: next })} />`;
  const others = names.filter((name) => !schema[name]["x-slider"]);
  return html`<form onSubmit=${(event) => { event.preventDefault(); if (!onlyFiles) setFile(null); ask(asked + 1); }}>
      ${takes.choices ? html`<${Field} label=${takes.label}><select value=${text} onChange=${(event) => { change({ text: event.target.value }); setFile(null); ask(asked + 1); }}>${takes.choices.map((name) => html`<option key=${name} value=${name} selected=${name === text}>${name}</option>`)}</select><//>`
      : takes.takes_text ? html`<${TextBox} label=${takes.label} rows=${2} value=${text} onInput=${(next) => change({ text: next || " " })} />` : null}
      <div class="bar" style=${{ marginTop: "10px" }}>
        ${takes.file.length > 0 && html`<${Field} label=${`A file (${takes.file.join(", ")})`}><input type="file" accept=${takes.file.join()} onChange=${(event) => setFile(event.target.files[0] || null)} /><//>`}
        ${takes.file.includes(".wav") && html`<${Recorder} onFile=${setFile} />`}
        ${names.filter((name) => schema[name]["x-slider"]).map(option)}
        ${(!onlyFiles || file) && html`<button class="button strong" disabled=${busy}>${takes.verb[0].toUpperCase() + takes.verb.slice(1)}</button>`}<${Busy} busy=${busy} /></div>
      ${others.length > 0 && html`<details><summary>More options</summary><div class="bar">${others.map(option)}</div></details>`}</form>
    <${Problem} problem=${problem} />
    ${value && html`<div class="card">${value.title && html`<h2>${value.title}</h2>`}
      ${value.text !== undefined && html`<p class="verdict" dir="auto">${text}<b>${value.text}</b></p>`}
      <${Rows} rows=${value.rows} />${value.points && html`<${Ink} points=${value.points} />`}
      ${value.caption && html`<p class="note">${value.caption}</p>`}<${Figures} figures=${value.figures.map((one) => (one.title === value.title ? { ...one, title: "" } : one))} /></div>`}`;
}

export default function Jobs({ models, params, change }) {
  const usable = models.filter((one) => one.task !== "translate"), model = pick(usable, params.model);
  if (!model) return html`<p class="problem">Only translators are served here. Train a model of another job, for example with harken train opinions-classify --out runs/opinions.</p>`;
  return html`<div class="bar"><${ModelSelect} models=${usable.map((one) => ({ ...one, network: one.task }))} value=${model.name} onChange=${(name) => change({ model: name, text: null })} /><p class="note">${model.network}</p></div><${Job} key=${model.name} model=${model} params=${params} change=${change} />`;
}
