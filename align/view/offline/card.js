"use strict";
// A sentence pair: its panels side by side, and what happens where a word is pointed at, focused or clicked.

const pins = new Map(); // from a pair's number to the words that are pinned there

function pinned(n) {
  if (!pins.has(n)) pins.set(n, new Set());
  return pins.get(n);
}

// Fills an empty card.
function fillCard(card, options) {
  const n = Number(card.dataset.pair);
  const pair = DATA.pairs[n];
  const panels = panelsOf(pair);
  const matrix = options.matrix && !ALONE && pair.source.length * pair.target.length <= MOST_CELLS;
  const row = element("div", { className: `panels ${matrix ? "matrix" : options.all ? "all" : ""}` });
  for (const panel of panels) row.append(panelElement(pair, panel, options, matrix));
  card.replaceChildren(cardHead(pair), ...(matrix ? [sentencesOf(pair)] : []), row);
  card.shown = { pair, panels, options, hovered: [] };
  if (options.attention && pair.shares) fillAttention(card, pair, panels, options);
  refresh(card);
}

function cardHead(pair) {
  const head = element("header", {}, element("h2", {}, `${pair.number}`));
  const lengths = `${pair.source.length} and ${pair.target.length} words`;
  const differing = pair.differing ? `, ${pair.differing} ${pair.differing === 1 ? "link" : "links"} not in all systems` : "";
  head.append(element("span", { className: "note" }, lengths + differing));
  return head;
}

// Both sentences, with a place for the lines between them.
function sentencesOf(pair) {
  const lines = drawn("svg", { class: "links", "aria-hidden": "true" });
  return element("div", { className: "sentences" }, sentence(pair.source, "s"), sentence(pair.target, "t"), lines);
}

function readingElement() {
  const reading = element("p", { className: "reading" });
  reading.setAttribute("aria-live", "polite");
  return reading;
}

// Links as lines between sentences, or as a matrix.
function panelElement(pair, panel, options, matrix) {
  const made = element("section", { className: panel.system ? "panel" : "panel gold" });
  const title = element("h3", {}, element("bdi", {}, visible(shorten(panel.name, LONGEST))));
  if (panel.system && pair.gold) title.append(" ", rateElement(panel.system));
  if (matrix) {
    made.append(title, linkGrid(pair, panel), readingElement());
    return made;
  }
  const sentences = sentencesOf(pair);
  for (const { i, j, status } of panel.links.values()) {
    if (status !== "wrong" && status !== "missing" && status !== "differs") continue;
    for (const name of [`s${i}`, `t${j}`]) {
      const word = sentences.querySelector(`.word[data-word="${name}"]`);
      if (word) word.classList.add(`has-${status}`);
    }
  }
  made.append(title, sentences, readingElement());
  if (options.matrix) made.append(linkGrid(pair, panel)); // below the lines of a pair alone, or says that it is too large
  return made;
}

function rateElement(system) {
  const made = element("span", { className: "rate" }, `AER ${percent(system.aer)}`);
  for (const status of ["wrong", "missing"]) {
    if (system[status]) made.append(element("span", { className: "badge" }, sign(status), `${system[status]} ${status}`));
  }
  return made;
}

// Weight beside norm in the cell that is asked for.
async function fillAttention(card, pair, panels, options) {
  const place = element("div", { className: "attention" });
  card.append(place);
  const shares = await sharesOf(pair);
  const [layer, head] = DATA.model.cells[options.cell];
  const where = `layer ${layer}, ${head === "all" ? "all heads" : `head ${head}`}`;
  const links = new Map([...panels[0].links].filter(([, link]) => link.status !== "absent"));
  const maps = DATA.model.scores.map((score, n) => {
    return heatGrid(pair, `${score}, ${where}`, shareReader(pair, shares, n, options.cell), links);
  });
  place.replaceChildren(...maps);
  markCut(place);
}

// The words that an event is about: one, or both of a cell.
function wordsAt(target) {
  const at = target instanceof Element ? target.closest("[data-word], [data-cell]") : null;
  if (!at) return [];
  if (at.dataset.word) return [at.dataset.word];
  const [i, j] = at.dataset.cell.split("-");
  return [`s${i}`, `t${j}`];
}

function hover(card, words) {
  if (card.shown && card.shown.hovered.join() !== words.join()) {
    card.shown.hovered = words;
    refresh(card);
  }
}

function togglePin(card, word) {
  const words = pinned(Number(card.dataset.pair));
  if (!words.delete(word)) words.add(word);
  refresh(card);
}

// Draws lines, marks words and writes what is linked, as the words pointed at and pinned say.
function refresh(card) {
  const { panels, hovered, options } = card.shown;
  const held = pinned(Number(card.dataset.pair));
  const active = new Set([...held, ...hovered]);
  const sections = card.querySelectorAll(".panel");
  for (const word of card.querySelectorAll("[data-word]")) {
    word.classList.toggle("active", active.has(word.dataset.word));
    if (word.classList.contains("word")) word.setAttribute("aria-pressed", held.has(word.dataset.word));
  }
  panels.forEach((panel, n) => {
    const touched = [...panel.links.values()].filter(({ i, j }) => isTouched(i, j, active, hovered, held));
    const near = new Set(touched.flatMap(({ i, j }) => [`s${i}`, `t${j}`]));
    for (const word of sections[n].querySelectorAll("[data-word]")) {
      word.classList.toggle("linked", near.has(word.dataset.word) && !active.has(word.dataset.word));
    }
    const all = options.all && !active.size;
    sections[n].classList.toggle("all", all);
    drawLinks(sections[n], all ? panel.links.values() : touched);
    sections[n].querySelector(".reading").replaceChildren(...readingOf(card.shown.pair, touched, active));
  });
  card.querySelectorAll(PARTS_THAT_SCROLL).forEach(markCut);
}

// A link is shown by either of its words; pointing at a cell of a matrix shows the link of both only.
function isTouched(i, j, active, hovered, held) {
  const [source, target] = [`s${i}`, `t${j}`];
  if (held.has(source) || held.has(target)) return true;
  return hovered.length === 2 ? active.has(source) && active.has(target) : active.has(source) || active.has(target);
}

function readingOf(pair, links, active) {
  if (!active.size) return [];
  if (!links.length) return [element("span", { className: "none" }, "no link")];
  return links.slice(0, 20).map(({ i, j, status, score }) => {
    const [from, to] = [pair.source[i], pair.target[j]].map((word) => visible(shorten(word ?? "?", 24)));
    const number = score === null ? "" : ` ${score.toFixed(2)}`;
    const text = element("span", {}, element("bdi", {}, from), " – ", element("bdi", {}, to), ` ${MEANINGS[status]}${number}`);
    return element("span", { className: `read ${status}` }, sign(status), text);
  });
}
