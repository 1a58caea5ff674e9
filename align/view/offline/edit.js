"use strict";
// Edit mode: one sentence pair at a time, in the order of the list; each cell of its matrix is sure, possible or none.

const STATES = { none: "no link", sure: "sure", maybe: "possible" };
const FOLLOWING = { none: "sure", sure: "maybe", maybe: "none" }; // what a click makes of a cell
const TALP = { sure: "-", maybe: "p" };

const kept = new Map(); // from each pair that was looked at to its links
const changes = []; // the last one is undone first
let downloaded; // the last change that a file has
let editing = false;
let cursor = [0, 0]; // source and target word of the cell that keys change
let held = null; // a word that waits for a click on one of the other side

function pairEdited() {
  const card = cards()[current];
  return card && DATA.pairs[card.dataset.pair];
}

// What a pair begins with; links to words that it does not have are left out, since no file may have them.
function linksAtStart(pair) {
  const from = byId("base").value;
  const found = from === "gold" ? goldLinks(pair) : new Map();
  if (from in pair.systems) {
    const { links, maybe = [] } = pair.systems[from];
    put(found, maybe, "maybe");
    put(found, links, "sure");
  }
  return new Map([...found].filter(([, link]) => exists(pair, link)));
}

function exists(pair, { i, j }) {
  return i < pair.source.length && j < pair.target.length;
}

function inOrder(links) {
  return [...links].sort((one, other) => one.i - other.i || one.j - other.j);
}

function linksOf(pair) {
  return kept.get(pair) || linksAtStart(pair);
}

function statusOf(links, i, j) {
  return links.has(key(i, j)) ? links.get(key(i, j)).status : "none";
}

function keep(pair) {
  if (!kept.has(pair)) kept.set(pair, linksAtStart(pair));
  return kept.get(pair);
}

// Sets the link of two words of the pair shown; without a status, to the one that follows.
function setLink(i, j, status) {
  const pair = pairEdited();
  const before = statusOf(linksOf(pair), i, j);
  const after = status || FOLLOWING[before];
  if (before !== after) changes.push({ pair, i, j, before });
  writeLink(pair, i, j, after);
  cursor = [i, j];
  const cell = cellAt(i, j);
  if (cell) paintCell(cell, pair, i, j, kept.get(pair));
  markEdited();
  writeProgress();
}

function writeLink(pair, i, j, status) {
  if (status === "none") keep(pair).delete(key(i, j));
  else keep(pair).set(key(i, j), { i, j, status });
}

// Takes back the last change, and shows the pair that it was in.
function undo() {
  if (!changes.length) return;
  const { pair, i, j, before } = changes.pop();
  const place = () => cards().findIndex((card) => DATA.pairs[card.dataset.pair] === pair);
  if (place() < 0) {
    [byId("find").value, byId("show").value] = ["", "all"];
    render();
  }
  current = place();
  writeLink(pair, i, j, before);
  showEdited([i, j]);
}

// Cells in which systems differ or gold says otherwise; if there are none, the links that the pair has.
function cellsToCheck(pair) {
  const links = panelsOf(pair).flatMap((panel) => [...panel.links.values()]);
  const differing = links.filter(({ status }) => ["wrong", "missing", "differs"].includes(status));
  const cells = inOrder(differing.length ? differing : [...linksOf(pair).values()]);
  return { differing: differing.length > 0, cells: cells.filter((link) => exists(pair, link)).map(({ i, j }) => [i, j]) };
}

function nextToCheck() {
  const { cells } = cellsToCheck(pairEdited());
  const later = cells.find(([i, j]) => i > cursor[0] || (i === cursor[0] && j > cursor[1]));
  if (cells.length) focusCell(...(later || cells[0]));
}

function cellAt(i, j) {
  const table = byId("edited").querySelector("table");
  const row = table && table.tBodies[0].rows[i];
  return row && row.cells[j + 1];
}

function paintCell(cell, pair, i, j, links) {
  const status = statusOf(links, i, j);
  cell.replaceChildren(...(status === "none" ? [] : [sign(status)]));
  const differs = cell.classList.contains("differing") ? ", systems or gold differ" : "";
  cell.setAttribute("aria-label", `${shownWord(pair.source[i])} – ${shownWord(pair.target[j])}: ${STATES[status]}${differs}`);
}

function focusCell(i, j) {
  const cell = cellAt(i, j);
  if (!cell) return;
  const before = cellAt(...cursor);
  if (before) before.tabIndex = -1;
  cell.tabIndex = 0;
  cursor = [i, j];
  if (!document.activeElement.matches("input, select")) cell.focus();
  const row = byId("edited").querySelector(".panels");
  const word = row.querySelector(`[data-word="s${i}"]`);
  row.scrollLeft = word.offsetLeft - row.clientWidth / 2;
  markEdited();
}

// Shows the current pair, with the cursor at a cell or at the first one to check.
function showEdited(at) {
  const pair = pairEdited();
  held = null;
  if (!pair) {
    byId("edited").replaceChildren(element("p", { className: "empty" }, "No sentence is like that."));
    writeProgress();
    return;
  }
  const { differing, cells } = cellsToCheck(pair);
  const links = linksOf(pair);
  const toCheck = new Set(differing ? cells.map(([i, j]) => key(i, j)) : []);
  const matrix = grid(pair, "links", pair.source, (i, j) => {
    const cell = cellOf(i, j);
    cell.tabIndex = -1;
    cell.classList.toggle("differing", toCheck.has(key(i, j)));
    paintCell(cell, pair, i, j, links);
    return cell;
  });
  const table = matrix.querySelector("table");
  if (table) table.setAttribute("role", "grid");
  byId("edited").replaceChildren(cardHead(pair), element("div", { className: "panels all" }, sentencesOf(pair)), readingElement(), matrix);
  cursor = at || cells[0] || [0, 0];
  focusCell(...cursor);
  markEdited();
  writeProgress();
}

// Draws the links, marks the words of the cursor or those pointed at, and says what their link is.
function markEdited(pointed = []) {
  const pair = pairEdited();
  const links = linksOf(pair);
  const [s, t] = pointed.length === 2 ? pointed : cursor.map((n, side) => `${"st"[side]}${n}`);
  for (const word of byId("edited").querySelectorAll("[data-word]")) {
    const name = word.dataset.word;
    word.classList.toggle("active", held ? name === held || pointed.includes(name) : name === s || name === t);
    if (word.classList.contains("word")) word.setAttribute("aria-pressed", name === held);
  }
  drawLinks(byId("edited"), links.values());
  const [from, to] = held ? [held, null] : [s, t];
  const state = held ? "" : `: ${STATES[statusOf(links, s.slice(1), t.slice(1))]}`;
  const names = [from, to].map((name) => element("bdi", {}, wordNamed(pair, name)));
  byId("edited").querySelector(".reading").replaceChildren(element("span", {}, names[0], " – ", names[1], state));
  byId("edited").querySelectorAll(PARTS_THAT_SCROLL).forEach(markCut);
}

function wordNamed(pair, name) {
  const word = name && (name[0] === "s" ? pair.source : pair.target)[name.slice(1)];
  return visible(shorten(word ?? "…", 24));
}

function isUnsaved() {
  return changes.at(-1) !== downloaded;
}

function writeProgress(more = "") {
  const all = DATA.pairs.length;
  const start = byId("base").value === "empty" ? "without links" : `as in ${byId("base").selectedOptions[0].text}`;
  const rest = kept.size < all ? `; a download has the others ${start}` : "";
  const state = isUnsaved() ? ". There are changes that no download has" : "";
  byId("progress").textContent = `${kept.size.toLocaleString()} of ${all.toLocaleString()} sentences looked at${rest}${state}. ${more}`;
  byId("undo").disabled = !changes.length;
  byId("lines").hidden = true; // they may be out of date
}

// To another pair; the one that is left counts as looked at.
function step(by) {
  const pair = pairEdited();
  if (!pair) return;
  keep(pair);
  current = Math.max(0, Math.min(cards().length - 1, current + by));
  showEdited();
}

// A word that is clicked waits for one of the other side.
function clickWord(name) {
  if (held && held[0] !== name[0]) {
    const [i, j] = [held, name].sort().map((word) => Number(word.slice(1)));
    held = null;
    setLink(i, j);
  } else {
    held = held === name ? null : name;
    markEdited();
  }
}

// Lines of all pairs in the order of the file, each ended by a line feed; Pharaoh has the sure links only.
function fileOf(format) {
  const lines = DATA.pairs.map((pair) => {
    const links = inOrder(linksOf(pair).values()).filter(({ status }) => format === "talp" || status === "sure");
    return links.map(({ i, j, status }) => `${i}${TALP[status]}${j}`).join(" ") + "\n";
  });
  return lines.join("");
}

function download(format) {
  const text = fileOf(format);
  const base = /(^|[ p-])0([ p-]|$)/m.test(text) || !text.trim() ? "" : " No first word has a link: read it with --gold-format 0-based.";
  if (window !== window.parent) return showLines(text, base); // frames may forbid downloads, and do not say so
  const part = kept.size < DATA.pairs.length ? `-${kept.size}-of-${DATA.pairs.length}` : "";
  const name = `edited${part}.${format}`;
  const address = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
  element("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60000);
  if (text === fileOf("talp")) downloaded = changes.at(-1); // else possible links would be lost
  writeProgress(`Downloaded ${name}${format === "talp" ? "" : ", the sure links only"}.${base}`);
}

// Shows the lines of a file in a field, to be copied.
function showLines(text, base) {
  writeProgress(`No file comes out of a frame: copy these lines.${base}`);
  const field = byId("lines");
  [field.value, field.hidden] = [text, false];
  field.focus();
  field.select();
}

function setEditing(on) {
  if (on && !(cards()[current] && isInView(cards()[current]))) current = Math.max(0, cards().findIndex(isInView));
  editing = on;
  document.body.classList.toggle("editing", on);
  byId("edit").setAttribute("aria-pressed", on);
  byId("editor").hidden = !on;
  if (on) showEdited();
  else {
    redraw();
    moveTo(current);
  }
}

function moveCursor(down, right) {
  const [i, j] = [cursor[0] + down, cursor[1] + right];
  focusCell(...(cellAt(i, j) && j >= 0 ? [i, j] : cursor));
}

// Keys of edit mode, added to those that work everywhere.
function editKeys() {
  const set = (status) => () => cellAt(...cursor) && setLink(...cursor, status);
  return {
    ArrowLeft: () => moveCursor(0, -1),
    ArrowRight: () => moveCursor(0, 1),
    ArrowUp: () => moveCursor(-1, 0),
    ArrowDown: () => moveCursor(1, 0),
    s: set("sure"),
    p: set("maybe"),
    Delete: set("none"),
    Backspace: set("none"),
    " ": set(),
    d: nextToCheck,
    u: undo,
    Enter: () => step(1),
    j: () => step(1),
    k: () => step(-1),
    Escape: () => held && clickWord(held),
  };
}

function listenToEditing() {
  const starts = DATA.systems.map(({ name }, n) => [n, visible(shorten(name, 30))]);
  fillSelect("base", [...(DATA.gold ? [["gold", "gold"]] : []), ...starts, ["empty", "nothing"]]);
  byId("base").addEventListener("input", () => showEdited());
  byId("edit").addEventListener("click", () => setEditing(!editing));
  byId("undo").addEventListener("click", undo);
  byId("previous").addEventListener("click", () => step(-1));
  byId("next").addEventListener("click", () => step(1));
  for (const format of ["talp", "pharaoh"]) byId(format).addEventListener("click", () => download(format));
  byId("edited").addEventListener("click", (event) => {
    const at = event.target.closest("[data-word], [data-cell]");
    if (!at) return;
    if (at.dataset.word) return clickWord(at.dataset.word);
    focusCell(...at.dataset.cell.split("-").map(Number));
    held = null;
    setLink(...cursor);
  });
  byId("edited").addEventListener("mouseover", (event) => pairEdited() && markEdited(wordsAt(event.target)));
  window.addEventListener("beforeunload", (event) => {
    if (!isUnsaved()) return;
    event.preventDefault();
    event.returnValue = true; // what older browsers go by
  });
}
