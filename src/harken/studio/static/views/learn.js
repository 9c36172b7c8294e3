// Learn: the chapters of the course, a section at a time, with live figures, exercises, and the output of their code.
import { html, useEffect, useRef, useState, get, post, stream, useWork, Field, Problem, Busy, Scroll } from "../lib.js";
import { Figures } from "../figure.js";
import { Table } from "../charts.js";
import { Sliders } from "./lab.js";

const PARTS = /(`[^`]+`|\*\*[^*]+\*\*|\*[^*]+\*|\[[^\]]+\]\([^)]+\))/;

function link(text, target) {
  const chapter = target.match(/^(\d)-[\w-]+\.py$/);
  if (chapter) return html`<a href=${`#learn?chapter=${chapter[1]}`}>${text}</a>`;
  if (target.startsWith("https:")) return html`<a href=${target} rel="noreferrer">${text}</a>`;
  if (/^\.\.\/benchmarks\/lab[\w-]*\.md/.test(target)) return html`<a href="#lab">${text}</a>`;
  return html`${text} (<code>${target.replace(/^(\.\.\/)+/, target.includes("src/") ? "" : "docs/")}</code>)`;
}

function inline(text) {
  return text.split(PARTS).map((part) => {
    if (part.startsWith("`")) return html`<code>${part.slice(1, -1)}</code>`;
    if (part.startsWith("**")) return html`<b>${inline(part.slice(2, -2))}</b>`;
    if (/^\*[^*]+\*$/.test(part)) return html`<em>${part.slice(1, -1)}</em>`;
    const found = part.match(/^\[([^\]]+)\]\(([^)]+)\)$/);
    return found ? link(found[1], found[2]) : part;
  });
}

const Code = ({ label, children }) => html`<${Scroll} label=${label}><pre class="code">${children}</pre><//>`;
const cellsOf = (line) => line.split("|").slice(1, -1).map((cell) => inline(cell.trim()));

// The Markdown that the chapters use: headings, fences, tables, paragraphs.
export function Markdown({ text, images = {} }) {
  const blocks = text.match(/```\w*\n[^]*?```|[^\n]+(\n(?!```)[^\n]+)*/g) || [];
  return blocks.map((block, at) => {
    const lines = block.split("\n");
    if (block.startsWith("```")) return html`<${Code} key=${at} label="Equation">${lines.slice(1, -1).join("\n")}<//>`;
    if (block.startsWith("|")) return html`<${Scroll} key=${at} label="Table"><table class="plain"><thead><tr>${cellsOf(lines[0]).map((cell) => html`<th scope="col">${cell}</th>`)}</tr></thead><tbody>${lines.slice(2).map((line) => html`<tr>${cellsOf(line).map((cell) => html`<td>${cell}</td>`)}</tr>`)}</tbody></table><//>`;
    if (block.startsWith("#")) return null; // the page has the headings
    const image = block.match(/^!\[([^\]]*)\]\(([^)]*)\)$/);
    if (image) return html`<img key=${at} class="photo" alt=${image[1]} src=${`data:image/png;base64,${images[image[2]]}`} />`;
    return html`<p key=${at}>${inline(block.replace(/\n/g, " "))}</p>`;
  });
}

// The cells of a chapter by sections, which begin with the headings in its text.
export function sectionsOf(chapter) {
  const sections = [];
  for (const cell of chapter.cells) {
    for (const source of cell.text ? cell.source.split(/^(?=##? )/m) : [cell.source]) {
      const heading = cell.text && source.match(/^##? (.*)/);
      if (heading) sections.push({ title: sections.length ? heading[1] : "Beginning", items: [] });
      if (cell.name !== "imports" && source.trim()) sections.at(-1).items.push({ ...cell, source });
    }
  }
  return sections;
}

function Exercise({ cell }) {
  const [text, setText] = useState(""), [state, setState] = useState({});
  const check = async (event) => {
    event.preventDefault();
    setState({ busy: true });
    try { setState({ verdict: await post("studio/learn/check", { name: cell.exercise, text }) }); } catch (problem) { setState({ problem }); }
  };
  return html`<form class="card" onSubmit=${check}>
    <div class="bar"><${Field} label=${`Your answer to exercise ${cell.exercise.slice(2)}`}><input type="text" autocomplete="off" spellcheck="false" maxlength="500" value=${text} onInput=${(event) => setText(event.target.value)} /><//>
      <button class="button strong" disabled=${!text.trim() || state.busy}>Check</button><${Busy} busy=${state.busy}>Checking<//></div>
    <p class="note">${cell.inputs.length ? html`A formula of <code>${cell.inputs.join(", ")}</code>, such as <code>tanh(${cell.inputs.slice(0, 2).join(" + ")})</code>.` : html`A number such as <code>3</code> or <code>sqrt(5) / 2</code>, or several between commas.`}</p>
    <${Problem} problem=${state.problem} />
    <div role="status">${state.verdict && html`<p class=${`verdict ${state.verdict.right ? "yes" : "no"}`}>${state.verdict.said}</p>`}</div></form>`;
}

const Outputs = ({ outputs }) => outputs.map((one, at) => (typeof one === "string" ? html`<${Code} key=${at} label="Output">${one.trimEnd()}<//>` : html`<${Figures} key=${at} figures=${one.figures} />`));

function Item({ cell, outputs, run, params, change }) {
  if (cell.text) return html`<${Markdown} text=${cell.source} images=${cell.images} />`;
  if (cell.exercise) return html`<${Exercise} key=${cell.exercise} cell=${cell} />`;
  return html`<details open=${cell.name.endsWith("written-out")}><summary>Code: ${cell.name.replaceAll("-", " ")}</summary><${Code} label="Code">${cell.source}<//></details>
    ${outputs ? html`<${Outputs} outputs=${outputs} />` : /^show\(/m.test(cell.source) && !cell.live && html`<button type="button" class="button" disabled=${!run} onClick=${run}>Run the chapter for this picture</button>`}
    ${cell.live && html`<${Sliders} name=${cell.live.name} sliders=${cell.live.sliders} path="studio/learn/live" prefix=${`${cell.live.name}.`} params=${params} change=${change} />`}`;
}

// A section. What follows a prediction is hidden until the reader has made it.
function Section({ section, results, run, params, change }) {
  const [opened, setOpened] = useState(0), [guesses, setGuesses] = useState({}), shown = useRef();
  useEffect(() => { if (opened) shown.current?.focus(); }, [opened]);
  let gates = 0;
  const parts = [];
  for (const [at, cell] of section.items.entries()) {
    parts.push(html`<${Item} key=${`${cell.name}${at}`} cell=${cell} outputs=${results[cell.name]} run=${run} params=${params} change=${change} />`);
    if (!cell.text || !cell.source.includes("**Predict.**")) continue;
    const gate = gates++;
    if (gate >= opened) {
      parts.push(html`<form key=${`gate${gate}`} class="bar" onSubmit=${(event) => { event.preventDefault(); setOpened(gate + 1); }}>
        <${Field} label="Your guess"><input type="text" autocomplete="off" value=${guesses[gate] || ""} onInput=${(event) => setGuesses({ ...guesses, [gate]: event.target.value })} /><//><button class="button strong">Show what happens</button></form>`);
      break;
    }
    parts.push(html`<p key=${`gate${gate}`} class="note" tabindex="-1" ref=${gate === opened - 1 ? shown : null}>${guesses[gate] ? `You guessed: ${guesses[gate]}` : "You made no guess."}</p>`);
  }
  return html`<div class="lesson">${parts}</div>`;
}

const RESULTS = {}; // chapter -> cell -> outputs; kept while the page is open

export default function Learn({ params, change }) {
  const { value, problem, busy } = useWork((signal) => get("studio/learn", signal), []);
  const [running, setRunning] = useState(null), [failed, setFailed] = useState(null), heading = useRef(), moved = useRef(false);
  useEffect(() => { if (moved.current) { heading.current?.focus(); heading.current?.scrollIntoView({ block: "nearest" }); } moved.current = true; }, [params.chapter, params.section]);
  if (!value) return html`<${Problem} problem=${problem} /><${Busy} busy=${busy}>Loading the chapters<//>`;
  const chapter = value.chapters.find((one) => String(one.number) === params.chapter) || value.chapters[0], sections = sectionsOf(chapter);
  const at = Math.min(Math.max(Number(params.section) || 1, 1), sections.length);
  const go = (number, section = 1) => { const clear = Object.fromEntries(Object.keys(params).map((key) => [key, null])); change({ ...clear, chapter: number, section }); };
  const run = async () => {
    const { number } = chapter;
    setRunning({ number }); setFailed(null); RESULTS[number] = {};
    try {
      await stream("studio/learn/run", { number }, (message) => {
        if (message.error) throw new Error(message.error);
        if (message.cell) { RESULTS[number] = { ...RESULTS[number], [message.cell]: message.outputs }; setRunning({ number, cell: message.cell }); }
      });
    } catch (error) { setFailed(error); }
    setRunning(null);
  };
  const last = chapter === value.chapters.at(-1) && at === sections.length;
  const next = () => (at < sections.length ? go(chapter.number, at + 1) : go(chapter.number + 1));
  return html`<div class="lab"><nav class="claims" aria-label="Chapters">${value.chapters.map((one) => html`<button type="button" key=${one.number} aria-pressed=${one === chapter} onClick=${() => go(one.number)}><b>${one.title}</b></button>`)}</nav>
    <article aria-label=${chapter.title}><h2 tabindex="-1" ref=${heading}>${at === 1 ? chapter.title : sections[at - 1].title}</h2>
      <div class="bar"><${Field} label=${`Section ${at} of ${sections.length}`}><select class="long" value=${at} onChange=${(event) => go(chapter.number, Number(event.target.value))}>${sections.map((one, index) => html`<option key=${index} value=${index + 1} selected=${index + 1 === at}>${one.title}</option>`)}</select><//>
        <button type="button" class="button" disabled=${Boolean(running)} onClick=${run}>Run the code of this chapter</button>
        <span class="note" role="status">${running ? `Running chapter ${running.number}${running.cell ? `, after “${running.cell.replaceAll("-", " ")}”` : ""} …` : RESULTS[chapter.number] && !failed ? "The outputs are below the code." : ""}</span></div>
      <${Problem} problem=${failed} />
      <${Section} key=${`${chapter.number} ${at}`} section=${sections[at - 1]} results=${RESULTS[chapter.number] || {}} run=${running ? null : run} params=${params} change=${change} />
      <div class="bar"><button type="button" class="button" disabled=${at === 1} onClick=${() => go(chapter.number, at - 1)}>Back</button><button type="button" class="button strong" disabled=${last} onClick=${next}>${at < sections.length ? "Next section" : "Next chapter"}</button></div></article></div>`;
}
