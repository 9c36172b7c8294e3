(() => {
  const root = document.querySelector(".harken-page"), tip = root.querySelector(".tip");
  let marked = [];
  const hide = () => { for (const head of marked) head.classList.remove("on"); marked = []; tip.hidden = true; };
  const show = (words, x, y) => {
    tip.textContent = words;
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    const left = x + 16 + box.width > innerWidth ? x - 16 - box.width : x + 16;
    const top = y + 18 + box.height > innerHeight ? y - 14 - box.height : y + 18;
    tip.style.transform = `translate(${Math.max(4, left)}px, ${Math.max(4, top)}px)`;
  };
  const name = (head) => head.title || head.textContent;
  const point = (cell, x, y) => {
    hide();
    const row = cell.parentNode.cells[0], column = cell.closest("table").tHead.rows[0].cells[cell.cellIndex];
    marked = [row, column];
    for (const head of marked) head.classList.add("on");
    const value = cell.dataset.v || Number(cell.style.getPropertyValue("--w")).toFixed(3);
    show(`${name(row)} ← ${name(column)}   ${value}`, x, y);
  };
  const cellOf = (event) => event.target.closest && event.target.closest("table.map td");
  for (const title of root.querySelectorAll(".hints title")) {  // the page's own tip instead of the browser's
    title.parentNode.dataset.says = title.textContent;
    title.remove();
  }
  root.addEventListener("pointermove", (event) => {
    const cell = cellOf(event), says = event.target.dataset && event.target.dataset.says;
    if (cell) point(cell, event.clientX, event.clientY);
    else if (says) { hide(); show(says, event.clientX, event.clientY); } else hide();
  });
  root.addEventListener("pointerleave", hide);
  for (const table of root.querySelectorAll("table.map")) {
    const rows = [...table.tBodies[0].rows];
    let entry = rows.length && rows[0].cells[1];
    if (!entry) continue;
    entry.tabIndex = 0;
    table.addEventListener("focusin", (event) => {
      const cell = cellOf(event), box = cell && cell.getBoundingClientRect();
      if (cell) point(cell, box.left + box.width / 2, box.top + box.height / 2);
    });
    table.addEventListener("focusout", hide);
    const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    table.addEventListener("keydown", (event) => {
      const cell = cellOf(event), move = moves[event.key];
      if (event.key === "Escape") hide();
      if (!cell || !move) return;
      event.preventDefault();
      const row = rows[rows.indexOf(cell.parentNode) + move[0]], next = row && row.cells[cell.cellIndex + move[1]];
      if (!next || next.cellIndex === 0) return;
      entry.tabIndex = -1;
      entry = next;
      entry.tabIndex = 0;
      entry.focus();
    });
  }
  for (const region of root.querySelectorAll(".frame > .scroll")) {  // edges beyond which there is more
    const look = () => { region.parentNode.dataset.more = `${region.scrollLeft > 1 ? "left" : ""} ${region.scrollLeft + region.clientWidth < region.scrollWidth - 1 ? "right" : ""}`; };
    new ResizeObserver(look).observe(region);
    region.addEventListener("scroll", look, { passive: true });
  }
  const buttons = [...root.querySelectorAll(".picker button")], sections = [...root.querySelectorAll("section[data-view]")];
  const choose = (chosen) => {
    for (const button of buttons) button.setAttribute("aria-pressed", button.dataset.view === chosen);
    for (const section of sections) section.hidden = section.dataset.view !== chosen;
  };
  for (const button of buttons) button.addEventListener("click", () => choose(button.dataset.view));
  const thumbnails = () => {
    const ink = getComputedStyle(root).getPropertyValue("--ink").trim().match(/[0-9a-f]{2}/gi).map((part) => parseInt(part, 16));
    for (const button of buttons) {
      const canvas = button.querySelector("canvas"), section = sections.find((one) => one.dataset.view === button.dataset.view);
      const rows = canvas ? [...section.querySelector("table.map").tBodies[0].rows] : [], across = rows.length ? rows[0].cells.length - 1 : 0;
      if (!across) continue;
      canvas.width = across; canvas.height = rows.length;
      const context = canvas.getContext("2d"), image = context.createImageData(across, rows.length);
      rows.forEach((row, down) => [...row.cells].slice(1).forEach((cell, at) =>
        image.data.set([...ink, 255 * Number(cell.style.getPropertyValue("--w"))], 4 * (down * across + at))));
      context.putImageData(image, 0, 0);
    }
  };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", thumbnails);
  thumbnails();
  if (sections.length) choose((buttons.find((button) => button.hasAttribute("data-first")) || buttons[0]).dataset.view);
})();
