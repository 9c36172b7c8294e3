// Other jobs: one box for a text or a file, the answer, and the picture behind it.
import { html, useEffect, useRef, useState, get, post, useWork, ModelSelect, Range, TextBox, Field, Problem, Busy, Meter, number } from "../lib.js";
import { Figures } from "../figure.js";
import { record } from "../recorder.js";
import { pick } from "./translate.js";

const VERBS = { classify: "Classify", regress: "Predict", tag: "Tag", language: "Continue", forecast: "Forecast", transcribe: "Transcribe", caption: "Caption", handwriting: "Write", answer: "Answer", masked: "Read", elmo: "Read" };

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

const Rows = ({ rows, task }) => rows.length > 0 && (task === "tag"
  ? html`<p class="tagged">${rows.map((one, at) => html`<span key=${at} title=${`probability ${one.value.toFixed(2)}`}>${one.word}<small>${one.name} ${number(one.value, 2)}</small></span>`)}</p>`
  : html`<table class="plain"><tbody>${rows.map((one) => html`<tr key=${one.name}><td><b>${one.name}</b></td><td style=${{ width: "180px" }}><${Meter} value=${one.value} /></td><td class="n">${number(one.value)}</td></tr>`)}</tbody></table>`);

function Recorder({ onFile }) {
  const [recording, setRecording] = useState(null);
  const [problem, setProblem] = useState(null);
  const press = async () => {
    if (recording) { setRecording(null); onFile(await recording.stop()); return; }
    try { setRecording(await record()); setProblem(null); } catch { setProblem(new Error("the microphone cannot be used; choose a file instead")); }
  };
  return html`<button type="button" class="button" aria-pressed=${Boolean(recording)} onClick=${press}>${recording ? "Stop recording" : "Record"}</button><${Problem} problem=${problem} />`;
}

function Job({ model, params, change }) {
  const { value: takes, problem: missing } = useWork((signal) => get(`studio/input?model=${encodeURIComponent(model.name)}`, signal), [model.name]);
  const [file, setFile] = useState(null);
  const [asked, ask] = useState(0);
  const task = model.task, options = { temperature: Number(params.temperature ?? 0.8), length: Number(params.length ?? 60), seed: Number(params.seed ?? 1), bias: Number(params.bias ?? 1), generate: task === "language" };
  const text = params.text ?? takes?.example ?? "";
  const live = ["classify", "tag", "regress", "answer"].includes(task) && !takes?.file.length;
  const first = useRef(true);
  useEffect(() => { if (takes && first.current && (takes.series || !takes.file.length)) { first.current = false; ask(1); } }, [takes]);
  const { value, busy, problem } = useWork((signal) => {
    if (!takes || (!asked && !file)) return null;
    const form = new FormData();
    form.append("model", model.name); form.append("text", text); form.append("options", JSON.stringify(options));
    if (file) form.append("file", file, file.name);
    return post("studio/answer", form, signal);
  }, [asked, file, live ? text : null], live ? 300 : 0);
  if (!takes) return html`<${Problem} problem=${missing} /><${Busy} busy=${!missing}>Loading the model<//>`;
  return html`<form onSubmit=${(event) => { event.preventDefault(); setFile(null); ask(asked + 1); }}>
      ${takes.series ? html`<${Field} label="Series"><select value=${text} onChange=${(event) => { change({ text: event.target.value }); setFile(null); ask(asked + 1); }}>${takes.series.map((name) => html`<option key=${name} value=${name} selected=${name === text}>${name}</option>`)}</select><//>`
      : !takes.file.length && !takes.draws_from_nothing ? html`<${TextBox} label=${task === "answer" ? "Facts, then a question" : task === "language" ? "Beginning" : "Text"} rows=${2} value=${text} onInput=${(next) => change({ text: next || " " })} />` : null}
      <div class="bar" style=${{ marginTop: "10px" }}>
        ${takes.file.length > 0 && html`<${Field} label=${`A file (${takes.file.join(", ")})`}><input type="file" accept=${takes.file.join()} onChange=${(event) => setFile(event.target.files[0] || null)} /><//>`}
        ${task === "transcribe" && html`<${Recorder} onFile=${setFile} />`}
        ${task === "language" && html`<${Range} label="Temperature" min=${0} max=${1.5} step=${0.05} value=${options.temperature} onInput=${(next) => change({ temperature: next })} /><${Range} label="Tokens" min=${5} max=${200} step=${5} value=${options.length} onInput=${(next) => change({ length: next })} />`}
        ${task === "handwriting" && html`<${Range} label="Neatness" min=${0} max=${5} step=${0.25} value=${options.bias} onInput=${(next) => change({ bias: next })} />`}
        ${["language", "handwriting"].includes(task) && html`<${Range} label="Seed" min=${1} max=${50} value=${options.seed} onInput=${(next) => change({ seed: next })} />`}
        ${!(takes.file.length > 0 && !takes.series) && html`<button class="button strong" disabled=${busy}>${VERBS[task] || "Run"}</button>`}<${Busy} busy=${busy} /></div></form>
    <${Problem} problem=${problem} />
    ${value && html`<div class="card">${value.title && html`<h2>${value.title}</h2>`}
      ${value.text !== undefined && html`<p class="verdict">${text}<b>${value.text}</b></p>`}
      <${Rows} rows=${value.rows} task=${task} />${value.points && html`<${Ink} points=${value.points} />`}
      ${value.caption && html`<p class="note">${value.caption}</p>`}<${Figures} figures=${value.figures.map((one) => (one.title === value.title ? { ...one, title: "" } : one))} /></div>`}`;
}

export default function Jobs({ models, params, change }) {
  const usable = models.filter((one) => one.task !== "translate"), model = pick(usable, params.model);
  if (!model) return html`<p class="problem">Only translators are served here. Train a model of another job, for example with harken train opinions-classify --out runs/opinions.</p>`;
  return html`<div class="bar"><${ModelSelect} models=${usable.map((one) => ({ ...one, network: one.task }))} value=${model.name} onChange=${(name) => change({ model: name, text: null })} /><p class="note">${model.network}</p></div><${Job} key=${model.name} model=${model} params=${params} change=${change} />`;
}
