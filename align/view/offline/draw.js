"use strict";
// Signs, lines between words, and tables of source by target words.

const SVG = "http://www.w3.org/2000/svg";
const MOST_CELLS = 40000; // of a table that is still drawn
const LONGEST = 60; // characters of a word that are shown
const SHARES = [0.5, 0.4, 0.6, 0.3, 0.7, 0.22, 0.78]; // of a line's way, where its sign may be
const APART = 11; // pixels between the signs of two lines

const SQUARE = "M-5-5h10v10h-10z";
const DIAMOND = "M0-6L6 0L0 6L-6 0z";
const SHAPES = {
  sure: SQUARE,
  maybe: `${SQUARE}M-1-1h2v2h-2z`,
  found: SQUARE,
  possible: `${SQUARE}M-1-1h2v2h-2z`,
  wrong: "M-5-5L5 5M5-5L-5 5",
  missing: SQUARE,
  left: "M-3-3h6v6h-6z",
  agreed: SQUARE,
  differs: DIAMOND,
  absent: DIAMOND,
  link: SQUARE,
};

// An element with properties and children, which are nodes or text; text is never read as HTML.
function element(name, properties, ...children) {
  const made = document.createElement(name);
  Object.assign(made, properties);
  made.append(...children);
  return made;
}

function drawn(name, attributes) {
  const made = document.createElementNS(SVG, name);
  for (const [attribute, value] of Object.entries(attributes)) made.setAttribute(attribute, value);
  return made;
}

// The sign of a status, as a picture of its own.
function sign(status) {
  const picture = drawn("svg", { class: `sign ${status}`, viewBox: "-8 -8 16 16", "aria-hidden": "true" });
  picture.append(drawn("path", { d: SHAPES[status] }));
  return picture;
}

function shownWord(word) {
  return visible(shorten(word, LONGEST));
}

const LETTER = /\p{L}/u;
const OF_RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u;

// A word, isolated by its style from its neighbours: in its own direction, without letters in the sentence's.
function wordElement(word, side, n) {
  const className = LETTER.test(word) ? "word" : "word without-letters";
  const made = element("span", { className, tabIndex: -1 }, shownWord(word));
  made.setAttribute("role", "button");
  made.setAttribute("aria-pressed", "false");
  made.dataset.word = `${side}${n}`;
  if (word.length > LONGEST) made.title = visible(shorten(word, 1000));
  return made;
}

// A sentence in the direction of most of its words, which may begin with a foreign name; between spaces as in the text.
function sentence(words, side) {
  const directed = words.filter((word) => LETTER.test(word));
  const dir = 2 * directed.filter((word) => OF_RIGHT_TO_LEFT.test(word)).length > directed.length ? "rtl" : "ltr";
  const made = element("p", { className: `sentence ${side === "s" ? "source" : "target"}`, dir });
  words.forEach((word, n) => made.append(wordElement(word, side, n), " "));
  if (!words.length) made.append(element("span", { className: "blank" }, "no words"));
  return made;
}

const PARTS_THAT_SCROLL = ".panels, .attention, .reading, #edited .scroll";

// Marks the sides at which a part that scrolls goes on; the style fades it there.
function markCut(part) {
  part.classList.toggle("cut-left", part.scrollLeft > 1);
  part.classList.toggle("cut-right", part.scrollLeft + part.clientWidth < part.scrollWidth - 1);
}

// A point of the curve that `drawLinks` draws, at a share of its way.
function onCurve(share, from, to, bend) {
  const [far, near] = [share ** 2 * (3 - 2 * share), 3 * share * (1 - share) * (1 - 2 * share)];
  return [from[0] + (to[0] - from[0]) * far, from[1] + (to[1] - from[1]) * far + bend * near];
}

// Draws links over the sentences of a panel, which hold the words' places. Signs keep clear of each other: all lines of
// a sentence whose words are in reverse order cross in one point.
function drawLinks(panel, links) {
  const canvas = panel.querySelector("svg.links");
  if (!canvas) return; // a matrix has its own signs
  const frame = canvas.getBoundingClientRect();
  const places = new Map();
  function place(name) {
    if (!places.has(name)) {
      const word = panel.querySelector(`.word[data-word="${name}"]`);
      places.set(name, word && word.getBoundingClientRect());
    }
    return places.get(name);
  }
  const lines = [];
  const taken = [];
  for (const { i, j, status } of links) {
    const [from, to] = [place(`s${i}`), place(`t${j}`)];
    if (!from || !to) continue; // a link to a word that the sentence does not have
    const [x1, y1] = [from.left + from.width / 2 - frame.left, from.bottom - frame.top];
    const [x2, y2] = [to.left + to.width / 2 - frame.left, to.top - frame.top];
    const bend = Math.max(12, (y2 - y1) / 2);
    const points = SHARES.map((share) => onCurve(share, [x1, y1], [x2, y2], bend));
    const isFree = ([x, y]) => taken.every((other) => Math.hypot(x - other[0], y - other[1]) >= APART);
    const [x, y] = points.find(isFree) || points[0];
    taken.push([x, y]);
    const middle = drawn("g", { transform: `translate(${x} ${y})` });
    middle.append(drawn("path", { class: "shape", d: SHAPES[status] }));
    const line = drawn("g", { class: `line ${status}`, "data-link": key(i, j) });
    line.append(drawn("path", { class: "curve", d: `M${x1} ${y1}C${x1} ${y1 + bend} ${x2} ${y2 - bend} ${x2} ${y2}` }), middle);
    lines.push(line);
  }
  canvas.replaceChildren(...lines);
}

// A table of source words (rows) by target words (columns); `fill` makes each cell.
function grid(pair, caption, rows, fill) {
  if (rows.length * pair.target.length > MOST_CELLS) {
    const size = `${rows.length.toLocaleString()} by ${pair.target.length.toLocaleString()} words`;
    return element("p", { className: "too-large" }, `${caption}: ${size} are too many to draw`);
  }
  const head = element("tr", {}, element("td"));
  pair.target.forEach((word, j) => head.append(headOf(word, `t${j}`, "col")));
  const body = element("tbody");
  rows.forEach((word, i) => {
    const row = element("tr", {}, headOf(word, `s${i}`, "row"));
    pair.target.forEach((_, j) => row.append(fill(i, j)));
    body.append(row);
  });
  const table = element("table", { className: "grid" }, element("caption", {}, caption), element("thead", {}, head), body);
  return element("div", { className: "scroll" }, table);
}

function headOf(word, name, scope) {
  const made = element("th", { scope }, element("bdi", {}, visible(shorten(word, 20))));
  made.dataset.word = name;
  return made;
}

function cellOf(i, j) {
  const made = element("td");
  made.dataset.cell = key(i, j);
  return made;
}

// The links of a panel as a table of signs.
function linkGrid(pair, panel) {
  return grid(pair, "links", pair.source, (i, j) => {
    const made = cellOf(i, j);
    const link = panel.links.get(key(i, j));
    if (link) {
      made.append(sign(link.status));
      made.title = MEANINGS[link.status] + (link.score === null ? "" : `, score ${link.score.toFixed(2)}`);
    }
    return made;
  });
}

// The shares of one score as a heat map, with the links of gold or of the first system framed.
function heatGrid(pair, caption, shareOf, links) {
  return grid(pair, caption, [...pair.source, "</s>"], (i, j) => {
    const made = cellOf(i, j);
    const share = shareOf(i, j);
    made.className = "heat";
    made.style.setProperty("--depth", 100 * (share / 100) ** 0.75); // small shares are seen better so
    made.title = (share / 100).toFixed(2);
    const link = links.get(key(i, j));
    if (link) made.classList.add("framed", link.status);
    return made;
  });
}
