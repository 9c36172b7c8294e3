// Lab: every claim, with sliders where its measurement is quick, and the whole experiment with its verdict on demand.
import { html, useEffect, useRef, useState, get, post, stream, useWork, Field, Range, Problem, Busy, number } from "../lib.js";
import { Figures } from "../figure.js";
import { Table } from "../charts.js";

// Sliders and the figure they change; their values live in the address, under a prefix where a page has several.
export function Sliders({ name, sliders, path, prefix = "", params, change }) {
  const given = (one) => params[prefix + one.key];
  const values = Object.fromEntries(sliders.map((one) => [one.key, given(one) === undefined ? one.value : one.choices.length ? given(one) : Number(given(one))]));
  const set = (one, value) => change({ ...(one.sets.length && { [prefix + one.sets[0]]: one.sets[1] }), [prefix + one.key]: value });
  const { value, busy, problem } = useWork((signal) => post(path, { name, values }, signal), [name, JSON.stringify(values)], 200);
  return html`<section class="card"><h2>Try it</h2>
    <div class="bar">${sliders.map((one) => (one.choices.length
      ? html`<${Field} key=${one.key} label=${one.label}><select value=${values[one.key]} onChange=${(event) => set(one, event.target.value)}>${one.choices.map((name) => html`<option key=${name} value=${name} selected=${name === values[one.key]}>${name}</option>`)}</select><//>`
      : html`<${Range} key=${one.key} label=${one.label} min=${one.low} max=${one.high} step=${one.step} value=${values[one.key]} onInput=${(next) => set(one, next)} show=${(next) => number(next, 4)} />`))}<${Busy} busy=${busy}>Measuring<//></div>
    <${Problem} problem=${problem} />
    ${value && html`<p class="verdict" role="status">${value.said}</p><${Figures} figures=${value.figures} />${value.table && html`<${Table} head=${value.table.columns} rows=${value.table.rows} />`}`}</section>`;
}

function Experiment({ claim }) {
  const [state, setState] = useState({ done: 0, say: "", report: null, problem: null, running: false });
  const [seed, setSeed] = useState(1);
  const control = useRef(null);
  useEffect(() => () => control.current?.abort(), []);
  const run = async (quick) => {
    control.current = new AbortController();
    setState({ done: 0, say: "starting", report: null, problem: null, running: true });
    try {
      await stream("studio/lab/run", { name: claim.name, seed, quick }, (message) => {
        if (message.error) throw new Error(message.error);
        setState((old) => (message.report ? { ...old, report: message.report, running: false } : { ...old, ...message }));
      }, control.current.signal);
    } catch (problem) {
      setState((old) => ({ ...old, running: false, problem: problem.name === "AbortError" ? null : problem }));
    }
  };
  const { report } = state;
  return html`<section class="card"><h2>The experiment</h2>
    <div class="bar"><${Field} label="Seed"><input type="number" min="0" max="9999" value=${seed} onInput=${(event) => setSeed(Number(event.target.value) || 0)} /><//>
      <button type="button" class="button" disabled=${state.running} onClick=${() => run(true)}>Quick run</button>
      <button type="button" class="button strong" disabled=${state.running} onClick=${() => run(false)}>Run in full</button>
      ${state.running && html`<button type="button" class="button" onClick=${() => { control.current.abort(); setState((old) => ({ ...old, running: false })); }}>Stop</button>`}</div>
    <p class="note">A quick run takes seconds and shows the way; it proves nothing. A full run takes minutes on all cores.</p>
    <${Problem} problem=${state.problem} />
    ${state.running && html`<div role="status"><progress aria-label="Progress of the experiment" value=${state.done}></progress><p class="note">${state.say}</p></div>`}
    ${report && html`<p class=${`verdict ${report.answer === "holds" ? "yes" : report.answer === "does not hold" ? "no" : ""}`}><b>${report.answer}</b>: ${report.verdict}${report.quick && html` <span class="number">(quick: too small to prove anything)</span>`}</p>
      ${report.explanation && html`<p>${report.explanation}</p>`}<${Figures} figures=${report.figures} /><${Table} head=${report.columns} rows=${report.rows} /><p class="note">seed ${report.seed}, ${number(report.seconds)} s</p>`}</section>`;
}

export default function Lab({ params, change }) {
  const { value, problem, busy } = useWork((signal) => get("studio/lab", signal), []);
  if (!value) return html`<${Problem} problem=${problem} /><${Busy} busy=${busy}>Loading the claims<//>`;
  const claim = value.claims.find((one) => one.name === params.claim) || value.claims[0];
  const choose = (name) => { const clear = Object.fromEntries(Object.keys(params).map((key) => [key, null])); change({ ...clear, claim: name }); };
  return html`<div class="lab"><nav class="claims" aria-label="Claims">${value.claims.map((one) => html`<button type="button" key=${one.name} aria-pressed=${one.name === claim.name} onClick=${() => choose(one.name)}><b>${one.name}${one.exploration && html` <span class="number">sliders</span>`}</b><span>${one.shows.replace(/ \((also )?--[^)]*\)/, "")}</span></button>`)}</nav>
    <div><p class="verdict"><b>Claim.</b> ${claim.statement}</p>
      <ul>${claim.parts.map(([kind, statement]) => html`<li key=${statement}><b>${kind}</b>: ${statement}</li>`)}</ul>
      ${claim.exploration && html`<${Sliders} key=${`s${claim.name}`} name=${claim.name} sliders=${claim.exploration.sliders} path="studio/lab/explore" params=${params} change=${change} />`}
      <${Experiment} key=${claim.name} claim=${claim} /></div></div>`;
}
