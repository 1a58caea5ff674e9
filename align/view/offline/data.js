"use strict";
// The data of the page, and what each link is: pure functions, nothing is drawn here.

const DATA = JSON.parse(document.getElementById("data").textContent);

// A pair of one system has room for its lines and their matrix.
const ALONE = DATA.pairs.length === 1 && DATA.systems.length === 1 && !DATA.gold;

const MEANINGS = {
  sure: "sure, in gold",
  maybe: "possible, in gold",
  found: "found",
  possible: "possible, found",
  wrong: "wrong",
  missing: "missing",
  left: "possible, left out",
  agreed: "in all systems",
  differs: "not in all systems",
  absent: "in other systems only",
  link: "link",
};

function key(i, j) {
  return `${i}-${j}`;
}

// Adds to a map from "i-j" to a link with its status; the first status of a link stays.
function put(found, links, status, scores) {
  links.forEach(([i, j], n) => {
    if (!found.has(key(i, j))) {
      const score = scores ? scores[n] : null;
      found.set(key(i, j), { i, j, status: typeof status === "string" ? status : status(key(i, j)), score });
    }
  });
}

// What gold holds of a pair.
function goldLinks(pair) {
  const found = new Map();
  put(found, pair.gold.sure, "sure");
  put(found, pair.gold.possible, "maybe");
  return found;
}

// The links of a system beside gold: those that it has, and those that it lacks.
function judged(pair, system) {
  const gold = goldLinks(pair);
  const found = new Map();
  const against = { sure: "found", maybe: "possible" };
  put(found, system.links, (link) => (gold.has(link) ? against[gold.get(link).status] : "wrong"), system.scores);
  put(found, pair.gold.sure, "missing");
  put(found, pair.gold.possible, "left");
  return found;
}

// The links of a system beside the other systems'.
function compared(pair, system) {
  const counts = new Map();
  for (const { links } of pair.systems) {
    for (const [i, j] of links) counts.set(key(i, j), (counts.get(key(i, j)) || 0) + 1);
  }
  const all = pair.systems.length;
  const found = new Map();
  put(found, system.links, (link) => (all === 1 ? "link" : counts.get(link) === all ? "agreed" : "differs"), system.scores);
  for (const { links } of pair.systems) put(found, links, "absent");
  return found;
}

// What stands side by side for a pair: gold, if there is any, and each system; a name, numbers and links.
function panelsOf(pair) {
  const panels = pair.gold ? [{ name: "gold", links: goldLinks(pair), system: null }] : [];
  pair.systems.forEach((system, n) => {
    panels.push({ name: DATA.systems[n].name, links: pair.gold ? judged(pair, system) : compared(pair, system), system });
  });
  return panels;
}

function percent(rate) {
  return rate === null ? "n/a" : rate.toFixed(1);
}

// Characters that nobody sees, or that turn the direction of what follows, as their escapes.
function visible(text) {
  return text.replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu, (character) => {
    if (character === "\u200c" || character === "\u200d") return character; // part of Persian and Hindi words
    return `\\u${character.codePointAt(0).toString(16).padStart(4, "0")}`;
  });
}

function shorten(text, most) {
  const shown = Array.from(text.slice(0, 2 * most + 2));
  return shown.length <= most && text.length <= 2 * most ? text : `${shown.slice(0, most - 1).join("")}…`;
}

// A pair's shares in hundredths, [score][cell][target][source, </s> last], which are unpacked once.
async function sharesOf(pair) {
  if (typeof pair.shares === "string") {
    const packed = Uint8Array.from(atob(pair.shares), (character) => character.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
    pair.shares = new Uint8Array(await new Response(stream).arrayBuffer());
  }
  return pair.shares;
}

// A function of source and target word to the share in one score and cell.
function shareReader(pair, shares, score, cell) {
  const [source, target] = [pair.source.length + 1, pair.target.length];
  const start = (score * DATA.model.cells.length + cell) * source * target;
  return (i, j) => shares[start + j * source + i];
}
