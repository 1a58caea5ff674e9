"use strict";
// The list: which pairs are in it and in which order, filled where it is looked at; controls and keys.

const byId = (id) => document.getElementById(id);
const SHOWS = [
  ["all", "all sentences", () => true],
  ["errors", "with errors", (pair, n) => pair.systems[n].wrong + pair.systems[n].missing > 0],
  ["wrong", "with wrong links", (pair, n) => pair.systems[n].wrong > 0],
  ["missing", "with missing links", (pair, n) => pair.systems[n].missing > 0],
  ["differ", "where systems differ", (pair) => pair.differing > 0],
  ["unlinked", "without any link", (pair, n) => pair.systems[n].links.length === 0],
];
const ORDERS = [
  ["file", "as in the file", null],
  ["aer", "highest AER first", (pair, n) => pair.systems[n].aer ?? -1],
  ["count", "most errors first", (pair, n) => pair.systems[n].wrong + pair.systems[n].missing],
  ["differ", "most differences first", (pair) => pair.differing],
  ["long", "longest first", (pair) => pair.source.length + pair.target.length],
];
const NEEDS_GOLD = ["errors", "wrong", "missing", "aer", "count"];

const cards = () => [...byId("list").querySelectorAll(".card")];

let current = 0; // the place in the list that keys start from

const observer = new IntersectionObserver(
  (entries) => {
    for (const { target, isIntersecting } of entries) {
      if (isIntersecting && !target.shown) fillCard(target, optionsNow());
    }
  },
  { rootMargin: "400px" },
);

function optionsNow() {
  const cell = DATA.model ? cellNow() : 0;
  return { all: byId("all").checked, matrix: byId("matrix").checked, attention: DATA.model && byId("attention").checked, cell };
}

function cellNow() {
  const [layer, head] = [byId("layer").value, byId("head").value];
  return DATA.model.cells.findIndex((cell) => String(cell[0]) === layer && String(cell[1]) === head);
}

// The pairs to show, in order.
function selected() {
  const system = Number(byId("system").value);
  const wanted = byId("find").value.toLocaleLowerCase();
  const [, , fits] = SHOWS.find(([name]) => name === byId("show").value);
  const [, , rank] = ORDERS.find(([name]) => name === byId("order").value);
  const texts = (pair) => [pair.source, pair.target].map((side) => side.join(" ").toLocaleLowerCase());
  const kept = DATA.pairs.filter((pair) => fits(pair, system) && (!wanted || texts(pair).some((text) => text.includes(wanted))));
  return rank ? kept.sort((one, other) => rank(other, system) - rank(one, system)) : kept;
}

// Makes the list anew: a card for each pair, empty until it comes near the window.
function render() {
  observer.disconnect();
  const pairs = selected();
  const made = pairs.map((pair) => {
    const card = element("article", { className: "card", tabIndex: 0, id: `pair-${pair.number}` });
    card.setAttribute("aria-label", `Sentence pair ${pair.number}`);
    card.dataset.pair = pair.number - 1;
    return card;
  });
  byId("list").replaceChildren(...made);
  if (!made.length) byId("list").append(element("p", { className: "empty" }, "No sentence is like that."));
  made.forEach((card) => observer.observe(card));
  byId("count").textContent = `${pairs.length.toLocaleString()} of ${DATA.pairs.length.toLocaleString()} shown`;
  current = Math.min(current, Math.max(0, made.length - 1));
}

function isInView(card) {
  const { top, bottom } = card.getBoundingClientRect();
  return bottom > byId("top").offsetHeight && top < window.innerHeight;
}

// Fills cards again with other options, and keeps the one in view where it is.
function refill() {
  const top = cards().find(isInView);
  const before = top && top.getBoundingClientRect().top;
  for (const card of cards()) {
    if (card.shown) fillCard(card, optionsNow());
  }
  if (top) window.scrollBy(0, top.getBoundingClientRect().top - before);
}

// Draws lines again after words have moved.
function redraw() {
  if (editing) return pairEdited() && markEdited();
  for (const card of cards()) {
    if (card.shown) refresh(card);
  }
}

function moveTo(place) {
  const all = cards();
  if (!all.length) return;
  current = Math.max(0, Math.min(all.length - 1, place));
  all[current].focus({ preventScroll: true });
  all[current].scrollIntoView({ block: "nearest" });
}

// Moves the focus from word to word in the sentences that have it, else in the first of systems.
function moveWord(card, by) {
  const at = document.activeElement.closest(".word");
  const sentences = (at && at.closest(".sentences")) || card.querySelector(".panel:not(.gold) .sentences, .card > .sentences");
  const words = [...sentences.querySelectorAll(".word")];
  const next = at ? words.indexOf(at) + by : by > 0 ? 0 : words.length - 1;
  if (words[next]) words[next].focus();
}

function onKey(event) {
  const at = document.activeElement;
  if (byId("help").open) return;
  if (at.matches("input[type=search], select, textarea")) {
    if (event.key !== "Escape") return;
    event.preventDefault(); // or a browser empties the field without a word
    at.blur();
    return;
  }
  if (editing && (event.ctrlKey || event.metaKey) && event.key === "z") {
    event.preventDefault();
    undo();
  }
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (at.matches("button") && ["Enter", " "].includes(event.key)) return;
  const card = at.closest(".card");
  const word = at.closest(".word");
  const keys = {
    "/": () => byId("find").focus(),
    e: () => byId("edit").click(),
    t: () => byId("theme").click(),
    "?": () => byId("help").showModal(),
  };
  if (editing) Object.assign(keys, pairEdited() ? editKeys() : {});
  else Object.assign(keys, listKeys(card));
  if (word && !editing) keys.Enter = keys[" "] = () => togglePin(card, word.dataset.word);
  if (keys[event.key]) {
    event.preventDefault();
    keys[event.key]();
  }
}

function listKeys(card) {
  const keys = {
    j: () => moveTo(card ? current + 1 : current),
    k: () => moveTo(current - 1),
    a: () => byId("all").click(),
    m: () => byId("matrix").click(),
    w: () => DATA.model && byId("attention").click(),
  };
  if (card) {
    keys.ArrowRight = () => moveWord(card, 1);
    keys.ArrowLeft = () => moveWord(card, -1);
    keys.Escape = () => letGo(card);
  }
  return keys;
}

function letGo(card) {
  pinned(Number(card.dataset.pair)).clear();
  card.focus({ preventScroll: true });
  hover(card, []);
  refresh(card);
}

// Words pointed at, focused and clicked, wherever in the list.
function listen(list) {
  const cardOf = (event) => (event.target instanceof Element ? event.target.closest(".card") : null);
  for (const kind of ["mouseover", "focusin"]) {
    list.addEventListener(kind, (event) => {
      const card = cardOf(event);
      if (card) hover(card, wordsAt(event.target));
    });
  }
  for (const kind of ["mouseout", "focusout"]) {
    list.addEventListener(kind, (event) => {
      const card = cardOf(event);
      if (card && !(event.relatedTarget && card.contains(event.relatedTarget))) hover(card, []);
    });
  }
  list.addEventListener("focusin", (event) => {
    current = cards().indexOf(cardOf(event));
  });
  list.addEventListener("click", (event) => {
    for (const word of wordsAt(event.target)) togglePin(cardOf(event), word);
  });
}
