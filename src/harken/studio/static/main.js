// The frame of the page: tabs, theme, and the chosen view, which is loaded when it is first opened.
import { html, render, useEffect, useState, get, stream, setKey, useAddress, Field, Problem, hideTip, chooseByArrow } from "./lib.js";

const VIEWS = {
  translate: ["Translate", "Type, and see each word as it becomes certain, how sure the model is, and where it came from."],
  inside: ["Look inside", "Attention of every head, gates of every unit, gradients and embeddings. Switch parts off and see what changes."],
  search: ["Search", "The beam, step by step: which prefixes were kept, which were dropped, and why the first one won."],
  compare: ["Compare", "Two models, or one with two settings, on the same sentence."],
  train: ["Train", "Curves of finished and running trainings, read from their folders."],
  learn: ["Learn", "Eight chapters from one-hot vectors to the Transformer: predict, then look; live figures, exercises that answer."],
  lab: ["Lab", "Claims about sequence models, measured on this machine."],
  jobs: ["Other jobs", "Classify, tag, generate, forecast, transcribe, caption and write by hand."],
};

const preferred = () => localStorage.getItem("harken-theme") || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");

function useTheme() {
  const [theme, setTheme] = useState(preferred);
  useEffect(() => { document.documentElement.dataset.theme = theme; dispatchEvent(new Event("themechange")); }, [theme]);
  useEffect(() => {
    const media = matchMedia("(prefers-color-scheme: dark)");
    const follow = () => setTheme(preferred());
    media.addEventListener("change", follow);
    return () => media.removeEventListener("change", follow);
  }, []);
  return [theme, () => { const next = theme === "dark" ? "light" : "dark"; localStorage.setItem("harken-theme", next); setTheme(next); }];
}

function KeyForm({ problem, done }) {
  const [key, change] = useState("");
  return html`<form class="card" onSubmit=${(event) => { event.preventDefault(); setKey(key); done(); }}>
    <h2>This server asks for an API key</h2>
    <${Problem} problem=${problem} />
    <div class="bar"><${Field} label="Key"><input type="password" autocomplete="off" value=${key} onInput=${(event) => change(event.target.value)} /><//>
    <button class="button strong">Continue</button></div></form>`;
}

function App() {
  const [{ view, params }, change] = useAddress();
  const [theme, switchTheme] = useTheme();
  const [known, setKnown] = useState({ models: [], api: false });
  const [state, setState] = useState("loading");
  const [views, setViews] = useState({});
  const name = VIEWS[view] ? view : "translate";
  const [refusal, setRefusal] = useState(null);
  const load = () => get("studio/models").then((found) => { setKnown(found); setState("ready"); }, (problem) => {
    setRefusal(problem.status === 403 ? problem : null);
    setState([401, 403].includes(problem.status) ? "key" : problem.message);
  });
  useEffect(() => { load(); }, []);
  // The training of the studio's own recurrent model goes on while other views are open.
  const [training, setTraining] = useState(null);
  const train = () => {
    if (training && !training.problem) return;
    setTraining({ say: "preparing" });
    stream("studio/example", {}, (message) => {
      if (message.error) throw new Error(message.error);
      setTraining(message);
    }).then(load).catch((problem) => setTraining({ problem }));
  };
  useEffect(() => {
    hideTip();
    document.title = `${VIEWS[name][0]} · harken studio`;
    if (!views[name]) import(`./views/${name}.js`).then((module) => setViews((old) => ({ ...old, [name]: module.default })));
  }, [name]);
  const View = views[name];
  return html`
    <a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); document.getElementById("main").focus(); }}>Skip to the content</a>
    <header class="top">
      <div class="brand"><img src="studio/static/icon.svg" alt="" />harken studio</div>
      <nav class="tabs" aria-label="Views" onKeyDown=${chooseByArrow}>
        ${Object.entries(VIEWS).map(([key, [title]]) => html`<a key=${key} href=${`#${key}`} aria-current=${key === name ? "page" : null}>${title}</a>`)}
      </nav>
      <button class="theme" onClick=${switchTheme} aria-label=${`Switch to ${theme === "dark" ? "light" : "dark"} colours`}>${theme === "dark" ? "☀ Light" : "☾ Dark"}</button>
    </header>
    <main id="main" tabindex="-1">
      <h1>${VIEWS[name][0]}</h1>
      <p class="lead">${VIEWS[name][1]}</p>
      ${state === "key" ? html`<${KeyForm} problem=${refusal} done=${load} />`
      : state === "loading" ? html`<p class="busy" role="status">Loading …</p>`
      : state !== "ready" ? html`<p class="problem" role="alert">${state}</p>`
      : View ? html`<${View} key=${name} models=${known.models} params=${params} change=${change} training=${training} train=${train} />` : null}
    </main>
    <footer class="foot">harken · everything on this page runs on this server; nothing leaves it${known.api && html` · <a href="docs">API</a>`}</footer>`;
}

render(html`<${App} />`, document.getElementById("app"));
