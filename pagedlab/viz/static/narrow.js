// The picture for a narrow screen. Shrunk to its width nobody could read it; so its areas (viz/areas.py) are set one below the
// other, each in the way of its kind, and no text is smaller than LEAST. A picture has one layout, in Python; this turns that
// into one for a phone, and knows of no lab.

import { chart, fold } from "./chart.js";
import { apart, flow, lines, PAD, rows, units, whole } from "./flow.js";
import { enlarged, has, inside, isPath, isText, itemOf, LEAST, middle, moved, pathEnd, pathStart, scaled } from "./items.js";

/** @typedef {import("./marks.js").Mark} Mark */
/** @typedef {import("./items.js").Box} Box */
/** @typedef {import("./items.js").Item} Item */
/** @typedef {import("./items.js").Words} Words */
/** @typedef {import("./items.js").Look} Look */
/** @typedef {import("./flow.js").Unit} Unit */
/** @typedef {import("./flow.js").Set & { to?: (x: number, y: number) => number[] }} Placed ``to``: where a point of a chart came to */
/** @typedef {{ box: Box, kind: string, plot: number[] | null, heads: Box[] }} Area */
/** @typedef {{ left: number, top: number, width: number, height: number, columns: number }} Strip */
/** @typedef {{ plot: number[], heads: Words[], time: Box[] }} About an area: the heads of its columns, the strip that is in it */

export const NARROW = 740; // pixels: a lab that is less wide is set anew
const GAP = 12; // between areas
const INDENT = 16; // of a tree's node under the one before it

/** @type {Record<string, (items: Item[], width: number, about: About) => Placed>} */
const KINDS = {
  flow,
  whole,
  tree,
  chart: (items, width, { plot, time }) => chart(items, width, plot, time),
  fold: (items, width, { plot }) => fold(items, width, plot),
  table: (items, width, { heads }) => table(items, width, heads),
  omit: () => ({ marks: [], height: -GAP }),
};

/**
 * @param {Iterable<Mark>} marks
 * @param {Area[]} areas in the order in which they stand on a narrow screen
 * @param {number} width of the screen, in pixels
 * @param {Strip | null} strip
 * @param {(cls: string) => Look} looks
 * @returns {{ marks: Map<string, Mark>, height: number, strip: Strip | null }}
 */
export function reflow(marks, areas, width, strip, looks) {
  const items = [...marks].map((mark) => itemOf(mark, looks));
  const owners = items.map((one) => owner(one, areas));
  const out = new Map();
  let y = PAD;
  let time = null;
  for (const area of areas) {
    const held = items.filter((_, i) => owners[i] === area);
    if (held.length === 0) continue;
    const box = strip && [strip.left, strip.top, strip.width, strip.height];
    const within = box && inside(box, area.box) ? [box] : [];
    const heads = area.heads.flatMap((around) => items.filter(isText).filter((one) => inside(one.box, around)));
    const about = { plot: area.plot ?? [0, 1], heads, time: within };
    const { marks: placed, height, to } = KINDS[area.kind](held, width - 2 * PAD, about);
    for (const mark of placed) out.set(mark.id, moved(mark, PAD, y));
    if (strip && within.length && to) {
      const [left, top] = to(strip.left, strip.top);
      const [right, bottom] = to(strip.left + strip.width, strip.top + strip.height);
      const high = Math.min(bottom, height) - top;
      time = { left: left + PAD, top: top + y, width: right - left, height: high, columns: strip.columns };
    }
    y += height + GAP;
  }
  return { marks: out, height: Math.ceil(y), strip: time };
}

/** The first area that a mark lies in, else the nearest. @param {Item} one @param {Area[]} areas */
function owner(one, areas) {
  const [x, y] = isText(one) ? [one.mark.place[0], middle(one.box)[1]] : middle(one.box);
  const far = (/** @type {Area} */ { box: [left, top, w, h] }) => Math.hypot(Math.max(left - x, 0, x - left - w), Math.max(top - y, 0, y - top - h));
  return areas.reduce((best, area) => (far(area) < far(best) ? area : best));
}

/** Each node under the one before it, as in a table of contents. @param {Item[]} items @param {number} width @returns {Placed} */
function tree(items, width) {
  const nodes = units(items.filter((one) => !isPath(one)), width);
  const near = (/** @type {Unit} */ { items: [{ box: [left, top, w, h] }] }, /** @type {number[]} */ [x, y], /** @type {number} */ side) =>
    Math.abs(left + side * w - x) < 2 && y > top && y < top + h;
  /** @type {Map<Unit, { edge: Mark, start: Unit }>} */
  const from = new Map(); // node -> the edge that leads to it
  for (const { mark: edge } of items.filter(isPath)) {
    const start = nodes.find((node) => near(node, pathStart(edge.text), 1));
    const end = nodes.find((node) => near(node, pathEnd(edge.text), 0));
    if (start && end) from.set(end, { edge, start });
  }
  const k = enlarged(nodes.flatMap((node) => node.items));
  /** @type {Mark[]} */
  const marks = [];
  let y = 0;
  const put = (/** @type {Unit} */ node, /** @type {number} */ depth, /** @type {number} */ above) => {
    const x = Math.min(depth * INDENT, width - node.box[2] * k);
    const edge = from.get(node)?.edge;
    marks.push(...scaled(node.items, node.box, { kx: k, ky: k, font: k }, x, y));
    if (edge) marks.push({ ...edge, text: `M${x - INDENT + 6} ${above}V${y + (node.items[0].box[3] * k) / 2}H${x}` });
    const bottom = y + node.box[3] * k;
    y = bottom + 6;
    for (const next of nodes.filter((other) => from.get(other)?.start === node)) put(next, depth + 1, bottom);
  };
  for (const node of nodes) if (!from.has(node)) put(node, 0, 0);
  return { marks, height: y };
}

/** Each row on lines of its own, each value behind the head of its column. @param {Item[]} items @param {number} width @param {Words[]} heads @returns {Placed} */
function table(items, width, heads) {
  const values = items.filter((one) => !heads.some((head) => head.mark === one.mark) && !has(one, "over"));
  /** @type {Mark[]} */
  const marks = [];
  let y = 0;
  for (const row of rows(units(apart(values, width).rest, width))) {
    const placed = lines([row.flatMap((unit) => headed(unit, heads))], width);
    marks.push(...placed.marks.map((mark) => moved(mark, 0, y)));
    y += placed.height + 8;
  }
  return { marks, height: y - 8 };
}

/** A value behind its column's head, if it has one. @param {Unit} unit @param {Words[]} heads @returns {Unit[]} */
function headed(unit, heads) {
  const off = (/** @type {Words} */ { box, look }) => {
    const end = look.anchor === "end" ? 1 : 0;
    return Math.abs(box[0] + end * box[2] - unit.box[0] - end * unit.box[2]);
  };
  const [head] = [...heads].sort((a, b) => off(a) - off(b));
  if (!head || off(head) >= 12) return [unit];
  const value = { ...unit, gap: 5 };
  const mark = { ...head.mark, id: `${head.mark.id}~${unit.items[0].mark.id}`, cls: head.mark.cls.replace(" bold", " soft") };
  const words = { ...head, mark, look: { ...head.look, size: LEAST } };
  return [{ items: [words], box: unit.box, kind: "text", gap: 14, value }, value];
}
