"use strict";
// What the page begins with: controls filled, overview written, the first sentences shown.

function fillSelect(id, entries) {
  byId(id).replaceChildren(...entries.map(([value, text]) => element("option", { value }, text)));
}

function fillControls() {
  const usable = ([name]) => (DATA.gold || !NEEDS_GOLD.includes(name)) && (DATA.systems.length > 1 || name !== "differ");
  fillSelect("show", SHOWS.filter(usable));
  fillSelect("order", ORDERS.filter(usable));
  byId("order").value = DATA.gold ? "aer" : "file";
  fillSelect("system", DATA.systems.map(({ name }, n) => [n, visible(shorten(name, 30))]));
  byId("of").hidden = DATA.systems.length < 2;
  if (DATA.pairs.length === 1) {
    for (const id of ["find", "show", "order"]) byId(id).closest("label").hidden = true;
    byId("all").checked = true;
  }
  if (!DATA.model) return;
  byId("model").hidden = false;
  fillSelect("layer", [...new Set(DATA.model.cells.map(([layer]) => layer))].map((layer) => [layer, layer]));
  fillSelect("head", [...new Set(DATA.model.cells.map(([, head]) => head))].map((head) => [head, head]));
  [byId("layer").value, byId("head").value] = DATA.model.shown;
}

function writeOverview() {
  const parts = [`${DATA.pairs.length.toLocaleString()} sentence ${DATA.pairs.length === 1 ? "pair" : "pairs"}`];
  if (DATA.model) parts.push(`attention of ${visible(DATA.model.name)}, ${DATA.model.position} position`);
  byId("about").textContent = parts.join(" · ");
  byId("signature").textContent = visible(DATA.signature);
  const heads = DATA.gold ? ["system", "AER", "links", "wrong", "missing"] : ["system", "links"];
  const head = element("tr", {}, ...heads.map((text) => element("th", { scope: "col" }, text)));
  const rows = DATA.systems.map((system) => {
    const name = element("th", { scope: "row" }, element("bdi", {}, visible(shorten(system.name, LONGEST))));
    const numbers = heads.slice(1).map((text) => (text === "AER" ? percent(system.aer) : system[text].toLocaleString()));
    return element("tr", {}, name, ...numbers.map((text) => element("td", {}, text)));
  });
  byId("summary").replaceChildren(element("thead", {}, head), element("tbody", {}, ...rows));
  const differing = DATA.systems.length > 1 ? ["agreed", "differs", "absent"] : ["link"];
  const statuses = DATA.gold ? ["found", "possible", "wrong", "missing", "left"] : differing;
  byId("legend").replaceChildren(...statuses.map((status) => element("li", {}, sign(status), MEANINGS[status])));
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  byId("theme").textContent = theme === "dark" ? "Light" : "Dark";
}

function start() {
  fillControls();
  writeOverview();
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  setTheme(dark.matches ? "dark" : "light");
  dark.addEventListener("change", () => setTheme(dark.matches ? "dark" : "light"));
  byId("theme").addEventListener("click", () => setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
  byId("keys").addEventListener("click", () => byId("help").showModal());
  const narrow = window.matchMedia("(max-width: 40rem)");
  const fit = () => {
    byId("matrix").checked = narrow.matches || ALONE; // lines need room
    refill();
  };
  narrow.addEventListener("change", fit);
  for (const id of ["find", "show", "order", "system"]) {
    byId(id).addEventListener("input", () => {
      render();
      if (editing) showEdited();
    });
  }
  for (const id of ["all", "matrix", "attention", "layer", "head"]) byId(id).addEventListener("input", refill);
  document.addEventListener("keydown", onKey);
  window.addEventListener("resize", redraw);
  document.addEventListener("scroll", ({ target }) => target !== document && target.matches(PARTS_THAT_SCROLL) && markCut(target), true);
  listen(byId("list"));
  listenToEditing();
  render();
  fit();
}

start();
