// Compare: the same sentence through two models, or through one with two settings.
import { html, useEffect, useState, post, useWork, ModelSelect, Range, TextBox, Problem, Busy, number } from "../lib.js";
import { Ribbon, Legend } from "../ribbon.js";
import { examplesOf, LONG } from "../sentences.js";
import { pick, translate, translators } from "./translate.js";

// Places in `words` that are not on a longest common subsequence with `others`.
export function differences(words, others) {
  const table = Array.from({ length: words.length + 1 }, () => Array(others.length + 1).fill(0));
  for (let i = words.length - 1; i >= 0; i -= 1) for (let j = others.length - 1; j >= 0; j -= 1) table[i][j] = words[i] === others[j] ? 1 + table[i + 1][j + 1] : Math.max(table[i + 1][j], table[i][j + 1]);
  const found = [];
  for (let i = 0, j = 0; i < words.length;) {
    if (j < others.length && words[i] === others[j]) { i += 1; j += 1; } else if (j < others.length && table[i][j + 1] >= table[i + 1][j]) j += 1; else { found.push(i); i += 1; }
  }
  return found;
}

const textOf = (result) => result.words.map((word) => word.text);

function Side({ models, side, params, change, text, other, onResult }) {
  const model = pick(models, params[`model${side}`]) || models[0];
  const beam = Number(params[`beam${side}`] ?? model.beam ?? 5), penalty = Number(params[`penalty${side}`] ?? model.length_penalty ?? 1);
  const body = { model: model.name, beam, nbest: 1, length_penalty: penalty, glossary: "", text };
  const { value, busy, problem } = useWork((signal) => (text.trim() ? translate(body, signal) : null), [JSON.stringify(body)], 250);
  const result = value?.[0];
  useEffect(() => { onResult(result); }, [result]);
  const mean = result && result.words.reduce((total, word) => total + word.probability, 0) / Math.max(1, result.words.length);
  return html`<section class="card" aria-label=${`Side ${side.toUpperCase()}`}>
    <div class="bar"><${ModelSelect} label=${`Model ${side.toUpperCase()}`} models=${models} value=${model.name} onChange=${(name) => change({ [`model${side}`]: name })} />
      <${Range} label="Beam" min=${1} max=${12} value=${beam} onInput=${(next) => change({ [`beam${side}`]: next })} />
      <${Range} label="Length penalty" min=${0} max=${2} step=${0.1} value=${penalty} onInput=${(next) => change({ [`penalty${side}`]: next })} show=${(next) => next.toFixed(1)} /></div>
    <${Problem} problem=${problem} /><${Busy} busy=${busy && !result} />
    ${result && html`<${Ribbon} result=${result} languages=${model.languages} differs=${other ? differences(textOf(result), textOf(other)) : []} /><${Legend} attention=${Boolean(result.attention)} />
      <p class="note">Score ${number(result.score)}, mean probability of a word ${number(mean, 2)}, ${result.words.filter((word) => word.probability < 0.5).length} words below 0.5.</p>`}</section>`;
}

export default function Compare({ models, params, change }) {
  const usable = translators(models);
  const [results, setResults] = useState({});
  if (!usable.length) return html`<p class="problem">No translator is served.</p>`;
  // At first the lecture's point: a model without attention beside one with it.
  const without = usable.find((one) => one.attends === false), withAttention = usable.find((one) => one.attends !== false);
  const both = { modela: params.modela ?? (without || usable[0]).name, modelb: params.modelb ?? (without ? withAttention || usable[0] : usable[1] || usable[0]).name };
  const text = params.text ?? (examplesOf(pick(usable, both.modela)).length ? LONG : "");
  const examples = examplesOf(pick(usable, both.modela));
  const a = results.a, b = results.b;
  const differ = a && b ? differences(textOf(a), textOf(b)).length : null;
  return html`
    <${TextBox} label="Sentence" rows=${2} value=${text} onInput=${(value) => change({ text: value || " " })} />
    ${examples.length > 0 && html`<div class="chips" role="group" aria-label="Examples" style=${{ margin: "0 0 14px" }}>${[["A short sentence", examples[0]], ["A long sentence", LONG]].map(([name, one]) => html`<button type="button" class="button" key=${name} aria-pressed=${text === one} onClick=${() => change({ text: one })}>${name}</button>`)}</div>`}
    ${differ !== null && html`<p class="verdict" role="status">${differ === 0 ? "Both translations are the same." : `${differ} of ${a.words.length} words of A are not in B; they are underlined.`}</p>`}
    <div class="columns">${["a", "b"].map((side) => html`<${Side} key=${side} side=${side} models=${usable} params=${{ ...params, ...both }} change=${change} text=${text} other=${side === "a" ? b : a} onResult=${(result) => setResults((old) => ({ ...old, [side]: result }))} />`)}</div>`;
}
