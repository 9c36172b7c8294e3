// Train: the runs of the folder, their curves over each other, recipes and cards; running ones are read again.
import { html, useEffect, useState, get, useWork, Field, Problem, Busy, Scroll, number } from "../lib.js";
import { Lines } from "../charts.js";

const EVERY = 2500; // milliseconds between looks at running trainings
const LEFT_OUT = new Set(["step", "epoch", "seconds", "spent", "best", "tokens"]);

function useRuns() {
  const [runs, setRuns] = useState(null);
  const [problem, setProblem] = useState(null);
  useEffect(() => {
    let timer, over = false;
    const look = () => get("studio/runs").then((found) => { if (!over) { setRuns(found.runs); setProblem(null); } }, setProblem).finally(() => { if (!over) timer = setTimeout(look, EVERY); });
    look();
    return () => { over = true; clearTimeout(timer); };
  }, []);
  return [runs, problem];
}

// Metrics of the chosen runs; only new lines are asked for.
function useCurves(names, runs) {
  const [curves, setCurves] = useState({});
  const changed = names.map((name) => runs?.find((run) => run.name === name)?.changed).join();
  useEffect(() => {
    for (const name of names) {
      const old = curves[name];
      get(`studio/metrics?name=${encodeURIComponent(name)}&after=${old?.lines ?? 0}`).then((found) => setCurves((all) => {
        const before = all[name];
        if (!before || found.lines < before.lines || old !== before) return { ...all, [name]: old && found.lines >= old.lines ? joined(old, found) : found };
        return { ...all, [name]: joined(before, found) };
      }), () => {});
    }
  }, [names.join(), changed]);
  return curves;
}

const joined = (old, found) => ({ ...found, ...Object.fromEntries(["train", "valid"].map((kind) => {
  const sizes = (columns) => Math.max(0, ...Object.values(columns).map((column) => column.length));
  const [before, after] = [sizes(old[kind]), sizes(found[kind])];
  const keys = new Set([...Object.keys(old[kind]), ...Object.keys(found[kind])]);
  return [kind, Object.fromEntries([...keys].map((key) => [key, [...(old[kind][key] ?? Array(before).fill(null)), ...(found[kind][key] ?? Array(after).fill(null))]]))];
})) });

const pace = (run) => (run.tokens_per_second ? `${Math.round(run.tokens_per_second).toLocaleString("en")} tokens/s` : "");
const took = (seconds) => (seconds ? `${Math.floor(seconds / 60)}:${String(Math.floor(seconds % 60)).padStart(2, "0")}` : "");
const MAIN = ["bleu", "f1", "accuracy", "mase", "symbol_error", "nats", "perplexity", "loss"]; // the first that a run has
const best = (run) => { const key = MAIN.find((one) => one in run.best); return key ? `${key === "bleu" ? "BLEU" : key.replaceAll("_", " ")} ${number(run.best[key], 4)}` : ""; };
function progress(run) {
  if (run.state !== "running") return null;
  const shares = [run.max_steps ? run.step / run.max_steps : 0, run.max_minutes ? run.seconds / 60 / run.max_minutes : 0];
  return Math.min(1, Math.max(...shares));
}

const left = (run) => { const share = progress(run); return share > 0.02 ? html`<span class="number">${took(run.seconds / share - run.seconds)} left</span>` : null; };

function Documents({ name }) {
  const { value, problem } = useWork((signal) => get(`studio/documents?name=${encodeURIComponent(name)}`, signal), [name]);
  return html`<${Problem} problem=${problem} />${value && html`<div class="columns">${[["Card", value.card], ["Recipe", value.recipe]].map(([title, text]) => html`<details class="card" key=${title}><summary>${title} of ${name}</summary><pre tabindex="0">${text || "not written yet"}</pre></details>`)}</div>`}`;
}

export default function Train({ params, change }) {
  const [runs, problem] = useRuns();
  const chosen = params.runs ? params.runs.split("|") : (runs || []).slice(0, 3).map((run) => run.name);
  const shown = chosen.filter((name) => runs?.some((run) => run.name === name));
  const curves = useCurves(shown, runs);
  const [axis, log] = [params.axis ?? "step", params.log !== "no"];
  if (!runs) return html`<${Problem} problem=${problem} /><${Busy} busy=${!problem}>Reading run folders<//>`;
  if (!runs.length) return html`<p class="problem">There is no run yet. Start one with: harken train phrasebook-attention --out runs/attention</p>`;
  const toggle = (name) => { const next = shown.includes(name) ? shown.filter((one) => one !== name) : [...shown, name]; change({ runs: next.join("|") || "|" }); };
  const metrics = [];
  for (const kind of ["train", "valid"]) {
    const names = new Set(shown.flatMap((name) => Object.keys(curves[name]?.[kind] || {})));
    for (const name of [...names].filter((one) => !LEFT_OUT.has(one)).sort((one, other) => (other === "loss") - (one === "loss"))) metrics.push([kind, name]);
  }
  const panelOf = ([kind, metric]) => ({
    title: `${kind === "train" ? "Training" : "Validation"}: ${metric.replaceAll("_", " ")}`, x_label: axis === "step" ? "update" : "minutes", y_label: metric.replaceAll("_", " "), log_y: log && ["loss", "perplexity"].includes(metric), dots: kind === "valid",
    series: shown.filter((name) => curves[name]?.[kind]?.[metric]).map((name) => ({ label: name, x: curves[name][kind][axis === "step" ? "step" : "seconds"].map((at) => (axis === "step" ? at : at / 60)), y: curves[name][kind][metric], colour: runs.findIndex((run) => run.name === name) })),
  });
  return html`<${Problem} problem=${problem} />
    <${Scroll} label="Runs"><table class="plain runs"><thead><tr><th scope="col">Shown</th><th scope="col">Run</th><th scope="col">State</th><th scope="col">Network</th><th scope="col">Data</th><th scope="col">Updates</th><th scope="col">Loss</th><th scope="col">Best validation</th><th scope="col">Speed</th><th scope="col">Time</th></tr></thead><tbody>
      ${runs.map((run) => html`<tr key=${run.name}><td><input type="checkbox" aria-label=${`Show ${run.name}`} checked=${shown.includes(run.name)} onChange=${() => toggle(run.name)} /></td><td><b>${run.name}</b></td><td><span class=${`state ${run.state}`}>${run.state}</span>${progress(run) !== null && html`<progress aria-label=${`Progress of ${run.name}`} value=${progress(run)}></progress>${left(run)}`}</td><td>${run.task}: ${run.network}</td><td>${run.data}</td><td class="n">${run.step?.toLocaleString("en")}</td><td class="n">${number(run.loss)}</td><td class="n">${best(run)}</td><td class="n">${pace(run)}</td><td class="n">${took(run.seconds)}</td></tr>`)}</tbody></table><//>
    <div class="bar" style=${{ marginTop: "14px" }}><${Field} label="Over"><select value=${axis} onChange=${(event) => change({ axis: event.target.value })}><option value="step" selected=${axis === "step"}>updates</option><option value="time" selected=${axis === "time"}>time</option></select><//>
      <label><input type="checkbox" checked=${log} onChange=${(event) => change({ log: event.target.checked ? null : "no" })} /> logarithmic loss</label></div>
    <div class="columns">${metrics.map((metric) => { const panel = panelOf(metric); return panel.series.length > 0 && html`<section class="card" key=${metric.join()}><h2>${panel.title}</h2><${Lines} panel=${panel} label=${panel.title} /></section>`; })}</div>
    ${shown.map((name) => html`<${Documents} key=${name} name=${name} />`)}`;
}
