// What all views share: preact, calls of the server, the state in the address, and small controls.
import { html, render, useState, useEffect, useLayoutEffect, useRef, useMemo, useCallback } from "./vendor/preact.js";
export { html, render, useState, useEffect, useLayoutEffect, useRef, useMemo, useCallback };

const keyOf = () => sessionStorage.getItem("harken-key") || "";
export const setKey = (key) => sessionStorage.setItem("harken-key", key);

export class ApiError extends Error {
  constructor(message, status) { super(message); this.status = status; }
}

async function answerOf(response) {
  if (response.ok) return response;
  let message = `the server answered ${response.status}`;
  try {
    const body = await response.json();
    message = body.error?.message || body.error || body.detail?.[0]?.msg || body.detail || message;
  } catch { /* no JSON: the status says enough */ }
  throw new ApiError(String(message), response.status);
}

const headers = (more) => ({ ...more, ...(keyOf() ? { Authorization: `Bearer ${keyOf()}` } : {}) });

export const get = async (path, signal) => (await answerOf(await fetch(path, { headers: headers(), signal }))).json();

export async function post(path, body, signal) {
  const form = body instanceof FormData;
  const response = await fetch(path, { method: "POST", signal, body: form ? body : JSON.stringify(body), headers: headers(form ? {} : { "Content-Type": "application/json" }) });
  return (await answerOf(response)).json();
}

// Server-sent events of a POST: calls `each` with every message.
export async function stream(path, body, each, signal) {
  const response = await answerOf(await fetch(path, { method: "POST", signal, body: JSON.stringify(body), headers: headers({ "Content-Type": "application/json" }) }));
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n\n");
    rest = parts.pop();
    for (const part of parts) if (part.startsWith("data: ")) each(JSON.parse(part.slice(6)));
  }
}

// The address: #view?key=value. All settings of a view live there, so that every state has a link.
export function readAddress() {
  const [view, query] = location.hash.slice(1).split("?");
  return { view: view || "translate", params: Object.fromEntries(new URLSearchParams(query || "")) };
}

export function useAddress() {
  const [address, setAddress] = useState(readAddress);
  useEffect(() => {
    const changed = () => setAddress(readAddress());
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  const change = useCallback((patch) => {
    const { view, params } = readAddress();
    for (const [key, value] of Object.entries(patch)) {
      if (value === undefined || value === null || value === "") delete params[key]; else params[key] = String(value);
    }
    const query = new URLSearchParams(params).toString();
    history.replaceState(null, "", `#${view}${query ? `?${query}` : ""}`);
    setAddress({ view, params });
  }, []);
  return [address, change];
}

// Runs `work(signal)` a while after its inputs have changed; an earlier call that still runs is cancelled.
export function useWork(work, inputs, delay = 0) {
  const [state, setState] = useState({ value: null, busy: false, problem: null });
  useEffect(() => {
    const control = new AbortController();
    const timer = setTimeout(async () => {
      setState((old) => ({ ...old, busy: true, problem: null }));
      try {
        const value = await work(control.signal, (part) => !control.signal.aborted && setState((old) => ({ ...old, value: part(old.value) })));
        if (!control.signal.aborted) setState({ value, busy: false, problem: null });
      } catch (problem) {
        if (!control.signal.aborted) setState((old) => ({ ...old, busy: false, problem }));
      }
    }, delay);
    return () => { clearTimeout(timer); control.abort(); };
  }, inputs);
  return state;
}

export const number = (value, digits = 3) => (value === null || value === undefined || !Number.isFinite(value) ? "" : Math.abs(value) >= 1000 && Math.abs(value) < 1e6 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(digits))));

export const sum = (values) => values.reduce((total, value) => total + value, 0);

export const Field = ({ label, children }) => html`<label class="field"><span>${label}</span>${children}</label>`;

export const Range = ({ label, value, min, max, step = 1, onInput, show = String }) => html`
  <${Field} label=${html`${label}: <b class="number">${show(value)}</b>`}>
    <input type="range" min=${min} max=${max} step=${step} value=${value} onInput=${(event) => onInput(Number(event.target.value))} />
  <//>`;

export const ModelSelect = ({ models, value, onChange, label = "Model" }) => html`
  <${Field} label=${label}>
    <select class="long" value=${value} onChange=${(event) => onChange(event.target.value)}>
      ${models.map((one) => html`<option key=${one.name} value=${one.name} selected=${one.name === value}>${one.name} (${one.network || one.task})</option>`)}
    </select>
  <//>`;

export const Problem = ({ problem }) => problem && html`<p class="problem" role="alert">${problem.message}</p>`;

export const Busy = ({ busy, children = "Working" }) => html`<span class="busy" role="status" hidden=${!busy}>${children} …</span>`;

// A region that scrolls by touch, wheel and arrow keys, with a fade at each edge beyond which there is more.
export function Scroll({ label, children, box }) {
  const own = useRef(), region = box || own, [more, setMore] = useState("");
  useLayoutEffect(() => {
    const node = region.current;
    const look = () => setMore([node.scrollLeft > 1 && "left", node.scrollLeft + node.clientWidth < node.scrollWidth - 1 && "right"].filter(Boolean).join(" "));
    const watcher = new ResizeObserver(look);
    for (const part of [node, ...node.children]) watcher.observe(part);
    node.addEventListener("scroll", look, { passive: true });
    return () => { watcher.disconnect(); node.removeEventListener("scroll", look); };
  }, []);
  return html`<div class="frame" data-more=${more}><div class="scroll" ref=${region} tabindex="0" role="region" aria-label=${label}>${children}</div></div>`;
}

// Arrow keys, Home and End choose among the links or buttons of a group.
export function chooseByArrow(event) {
  const all = [...event.currentTarget.querySelectorAll("a, button")], at = all.indexOf(document.activeElement);
  const next = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: all.length - 1 }[event.key];
  if (at < 0 || next === undefined) return;
  event.preventDefault();
  const chosen = all[(next + all.length) % all.length];
  chosen.focus();
  chosen.click();
}

export const Meter = ({ value }) => html`<span class="meter" aria-hidden="true"><b style=${{ width: `${Math.max(1, 100 * value)}%` }}></b></span>`;

// A text field whose text lives in the address.
export const TextBox = ({ label, value, onInput, rows = 3, id, ...more }) => html`
  <${Field} label=${label}><textarea id=${id} rows=${rows} spellcheck="false" maxlength="5000" dir="auto" value=${value} onInput=${(event) => onInput(event.target.value)} ...${more}></textarea><//>`;

export function download(name, content, type) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([content], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

// One tip for the whole page; charts and heat maps call `showTip` with the event.
let tip;
export function showTip(text, event) {
  tip ||= document.body.appendChild(Object.assign(document.createElement("div"), { className: "tip" }));
  tip.setAttribute("role", "status");
  tip.hidden = !text;
  if (!text) return;
  tip.textContent = text;
  const box = tip.getBoundingClientRect();
  const left = event.clientX + 14 + box.width > innerWidth ? event.clientX - 14 - box.width : event.clientX + 14;
  const top = event.clientY + 18 + box.height > innerHeight ? event.clientY - 12 - box.height : event.clientY + 18;
  tip.style.transform = `translate(${Math.max(4, left)}px, ${Math.max(4, top)}px)`;
}
export const hideTip = () => tip && (tip.hidden = true);
