// Search: the beam as a tree that grows step by step, and the terms of every final score.
import { html, useEffect, useMemo, useRef, useState, post, useWork, ModelSelect, Range, TextBox, Problem, Busy, Scroll, showTip, hideTip, number } from "../lib.js";
import { Table, Numbers } from "../charts.js";
import { examplesOf } from "../sentences.js";
import { pick, translators } from "./translate.js";

const ROW = 27, GAP = 34, SCORE = 48; // pixels; the last is the width of a number
const pen = document.createElement("canvas").getContext("2d");
const RANK = { best: 2, finished: 1, "cut off": 1 };

// A column for every step; best children on the row of their parent, the others on the first row below that is free.
export function layout(nodes) {
  const children = nodes.map(() => []), roots = [], rank = nodes.map((node) => RANK[node.outcome] ?? 0);
  for (let at = nodes.length - 1; at >= 0; at -= 1) if (nodes[at].parent >= 0) rank[nodes[at].parent] = Math.max(rank[nodes[at].parent], rank[at]);
  nodes.forEach((node, at) => (node.parent >= 0 ? children[node.parent] : roots).push(at));
  const better = (one, other) => rank[other] - rank[one] || nodes[other].total - nodes[one].total;
  const lane = nodes.map(() => 0), taken = []; // row -> the steps at which it holds a node
  const place = (first, least) => {
    const chain = [first];
    while (children[chain.at(-1)].length) chain.push(children[chain.at(-1)].sort(better)[0]);
    let row = least;
    while (chain.some((at) => taken[row]?.has(nodes[at].step))) row += 1;
    taken[row] ||= new Set();
    for (const at of chain) { lane[at] = row; taken[row].add(nodes[at].step); }
    for (const at of chain.reverse()) children[at].slice(1).forEach((child) => place(child, row + 1));
  };
  roots.sort(better).forEach((root) => place(root, 0));
  const steps = Math.max(0, ...nodes.map((node) => node.step)), widths = Array(steps + 1).fill(0);
  pen.font = `650 13px ${getComputedStyle(document.body).fontFamily}`;
  const word = nodes.map((node) => pen.measureText(node.text).width);
  nodes.forEach((node, at) => { widths[node.step] = Math.max(widths[node.step], word[at] + SCORE); });
  const left = [0];
  for (let step = 1; step <= steps; step += 1) left[step] = step === 1 ? 6 : left[step - 1] + widths[step - 1] + GAP;
  return { lane, rank, left, word, wide: (left[steps] ?? 0) + (widths[steps] ?? 0) + 16, tall: ROW * taken.length + 34 };
}

// The prefix that ends in each node, with its score and outcome, for those who cannot see the tree.
function prefixes(nodes) {
  const texts = [];
  nodes.forEach((node) => texts.push(node.parent >= 0 ? `${texts[node.parent]} ${node.text}` : node.text));
  return nodes.map((node, at) => [node.step, texts[at], node.total.toFixed(3), node.outcome === "live" ? "went on" : node.outcome]);
}

function Tree({ value, step, follow }) {
  const { nodes } = value, box = useRef();
  const { lane, rank, left, word, wide, tall } = useMemo(() => layout(nodes), [nodes]);
  useEffect(() => { // keeps the newest column in view
    const region = box.current, end = left[step + 1] ?? wide;
    if (follow && end > region.scrollLeft + region.clientWidth) region.scrollLeft = end - region.clientWidth;
    if (follow && left[step] < region.scrollLeft) region.scrollLeft = left[step] - GAP;
  }, [step, follow]);
  const y = (at) => 30 + ROW * lane[at];
  const isDropped = (node, at) => node.outcome === "dropped" && node.step < step && rank[at] === 0;
  return html`<${Scroll} label="Beam tree" box=${box}><svg class="tree" width=${wide} height=${tall} role="img" aria-label=${`Beam tree after ${step} steps`} onPointerLeave=${hideTip}>
    ${left.slice(1).map((x, index) => html`<text key=${index} class="small" x=${x} y="12">${index + 1}</text>`)}
    ${nodes.map((node, at) => node.step <= step && html`<g key=${at} data-step=${node.step} class=${rank[at] === 2 ? "best" : isDropped(node, at) ? "dropped" : ""} onPointerMove=${(event) => showTip(`${node.text}: log P ${node.log_probability.toFixed(3)}, probability ${Math.exp(node.log_probability).toFixed(3)}\nprefix: ${node.total.toFixed(3)}\n${node.outcome === "live" ? "went on" : node.outcome}`, event)}>
      ${node.parent >= 0 && html`<path d=${`M${left[node.step - 1] + word[node.parent] + SCORE - 4} ${y(node.parent)} C${left[node.step] - GAP / 2 + 8} ${y(node.parent)} ${left[node.step] - GAP / 2 - 8} ${y(at)} ${left[node.step] - 4} ${y(at)}`} stroke-width=${1 + 1.6 * Math.exp(node.log_probability)} />`}
      <text x=${left[node.step]} y=${y(at) + 4}>${node.text}</text><text class="small" x=${left[node.step] + word[at] + 6} y=${y(at) + 4}>${node.total.toFixed(2)}</text></g>`)}
  </svg><//><${Numbers} head=${["step", "prefix", "log P", "outcome"]} rows=${() => prefixes(nodes)} />`;
}

const TERMS = [["log_probability", "log P"], ["rules", "rules"], ["divisor", "divided by"], ["reward", "reward"], ["coverage", "coverage"], ["rank", "rank"]];

export default function Search({ models, params, change }) {
  const usable = translators(models), model = pick(usable, params.model);
  const text = params.text ?? examplesOf(model)[0] ?? "";
  const beam = Number(params.beam ?? model?.beam ?? 5), penalty = Number(params.penalty ?? model?.length_penalty ?? 1);
  const { value, busy, problem } = useWork((signal) => (model && text.trim() ? post("studio/beam", { model: model.name, text, beam, length_penalty: penalty }, signal) : null), [model?.name, text, beam, penalty], 250);
  const steps = value ? Math.max(...value.nodes.map((node) => node.step)) : 0;
  const [chosen, setStep] = useState(null), step = chosen ?? steps; // at first the whole tree
  const [playing, setPlaying] = useState(false);
  useEffect(() => { setStep(null); setPlaying(false); }, [value]);
  useEffect(() => {
    if (!playing) return undefined;
    if (step >= steps) { setPlaying(false); return undefined; }
    const timer = setTimeout(() => setStep(step + 1), 650);
    return () => clearTimeout(timer);
  }, [playing, step]);
  if (!model) return html`<p class="problem">No translator is served.</p>`;
  const play = () => { if (step >= steps) setStep(1); setPlaying(!playing); };
  return html`
    <div class="bar"><${ModelSelect} models=${usable} value=${model.name} onChange=${(name) => change({ model: name })} />
      <${Range} label="Beam" min=${1} max=${12} value=${beam} onInput=${(next) => change({ beam: next })} />
      <${Range} label="Length penalty" min=${0} max=${2} step=${0.1} value=${penalty} onInput=${(next) => change({ penalty: next })} show=${(next) => next.toFixed(1)} /></div>
    <${TextBox} label="Sentence" rows=${2} value=${text} onInput=${(next) => change({ text: next || " " })} />
    <${Problem} problem=${problem} />
    ${value && html`<div class="card" aria-busy=${busy}><div class="bar"><button type="button" class="button strong" onClick=${play}>${playing ? "Pause" : step >= steps ? "Replay" : "Play"}</button>
        <button type="button" class="button" aria-label="One step back" disabled=${step <= 1} onClick=${() => setStep(step - 1)}>←</button><button type="button" class="button" aria-label="One step on" disabled=${step >= steps} onClick=${() => setStep(step + 1)}>→</button>
        <${Range} label="Step" min=${1} max=${steps} value=${step} onInput=${setStep} show=${(at) => `${at} of ${steps}`} /><${Busy} busy=${busy} /></div>
      <${Tree} value=${value} step=${step} follow=${chosen !== null} />
      <p class="note">Bold: the best hypothesis. Dashed: prefixes that left the beam. Numbers: log-probability of the prefix. Hover a node for its terms.</p></div>
    <div class="card"><h2>Final scores</h2><p class="verdict">${value.reason}</p><p class="note">rank = (log P + rules) / divisor + reward + coverage</p>
      <div class="terms"><${Table} best=${0} head=${["hypothesis", "tokens", ...TERMS.map(([, name]) => name)]} rows=${value.hypotheses.map((one) => [one.text + (one.finished ? "" : " (cut off)"), one.tokens, ...TERMS.map(([key]) => number(one[key], 4) || "0")])} /></div></div>`}`;
}
