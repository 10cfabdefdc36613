// Blocks and texts one behind the other, as words are in a paragraph: the way of most areas on a narrow screen.

import { enlarged, inside, isCard, isPath, isText, middle, moved, scaled, sizeOf, union, widthOf } from "./items.js";

/** @typedef {import("./marks.js").Mark} Mark */
/** @typedef {import("./items.js").Box} Box */
/** @typedef {import("./items.js").Item} Item */
/** @typedef {import("./items.js").Words} Words */
/**
 * @typedef {object} Unit what stays together
 * @property {Item[]} items
 * @property {Box} box
 * @property {"block" | "sign" | "words" | "text"} kind a block (those of an area are enlarged alike), a sign with its word, short
 *   words one above the other, a text
 * @property {number} [gap] to the unit before it, where it is not as in the wide picture
 * @property {Unit} [value] that a text must not be parted from
 */
/** @typedef {{ marks: Mark[], height: number }} Set from the area's own corner */

export const LEADING = 1.28;
export const PAD = 8;
const MANY = 100; // cards in rows too long to be broken
const MOST_TALL = 1.7; // how much taller rows may get so that they have room for their words

/** One piece, which has room as it is. @param {Item[]} items @param {number} width @returns {Set} */
export function whole(items, width) {
  const box = union(items.map((one) => one.box));
  const kx = Math.min(enlarged(items), width / box[2]);
  const ky = taller(items);
  return { marks: scaled(items, box, { kx, ky, font: kx }, 0, 0), height: box[3] * ky };
}

/** @param {Item[]} items */
export const taller = (items) => Math.min(enlarged(items), MOST_TALL);

/** @param {Item[]} items @param {number} width @returns {Set} */
export function flow(items, width) {
  if (items.filter(isCard).length > MANY) return whole(items, width);
  const { backs, rest } = apart(oneText(items), width);
  const { marks, height } = lines(rows(units(rest, width)), width);
  const behind = backs.map(({ mark }) => ({ ...mark, place: [-PAD / 2, -PAD / 2, width + PAD, height + PAD] }));
  return { marks: [...behind, ...marks], height };
}

/** Lines that Python has broken one text into (they have the whole of it as their tip) become that text again. @param {Item[]} items */
function oneText(items) {
  /** @type {Item[]} */
  const out = [];
  for (const one of items) {
    const same = (/** @type {Item} */ b) => isText(b) && b.mark.tip === one.mark.tip && b.mark.place[0] === one.mark.place[0];
    const first = isText(one) && one.mark.tip ? out.find(same) : undefined;
    if (first) first.mark = { ...first.mark, text: `${first.mark.text} ${one.mark.text}` };
    else out.push({ ...one });
  }
  return out;
}

/** What is wider than the screen lies behind all else; thin lines and arrows lead nowhere any more. @param {Item[]} items @param {number} width */
export function apart(items, width) {
  const wide = (/** @type {Item} */ one) => !isText(one) && one.box[2] > width;
  return {
    backs: items.filter((one) => wide(one) && one.box[3] > 2),
    rest: items.filter((one) => !wide(one) && !isPath(one)),
  };
}

// ---- what belongs together

/** @param {Item[]} items @param {number} width @returns {Unit[]} */
export function units(items, width) {
  const cards = items.filter((one) => isCard(one) && one.box[2] <= width);
  cards.sort((a, b) => b.box[2] * b.box[3] - a.box[2] * a.box[3]);
  /** @type {Item[][]} */
  const groups = [];
  for (const card of cards) {
    const around = groups.find(([first]) => inside(card.box, first.box));
    if (around) around.push(card);
    else groups.push([card]);
  }
  const taken = new Set(cards);
  /** @type {Item[][]} */
  const loose = [];
  for (const one of items.filter((other) => !taken.has(other))) {
    const group = groups.find(([card]) => inside(one.box, card.box) || (isText(one) && names(one, card)));
    if (group) group.push(one);
    else loose.push([one]);
  }
  return joined([...groups, ...loose]).map((group) => ({ items: group, box: union(group.map((one) => one.box)), kind: kindOf(group) }));
}

/** @param {Item[]} group @returns {Unit["kind"]} */
function kindOf(group) {
  if (group.some(isBig)) return "block";
  if (!group.every(isText)) return "sign";
  return group.length > 1 ? "words" : "text";
}

/** @param {Item} one */
const isBig = (one) => isCard(one) && (one.box[2] > 30 || one.box[3] > 16);

/** Does the text stand right under the card, or right in front of it? @param {Words} text @param {Item} card */
function names({ box, look }, { box: [x, y, w, h] }) {
  const under = box[1] + box[3] - y - h;
  if (look.anchor === "middle") return Math.abs(box[0] + box[2] / 2 - x - w / 2) < 2 && under > 0 && under < 18;
  const before = x - box[0] - box[2];
  return look.anchor === "end" && before >= 0 && before < 6 && box[2] < 12 && h > 20 && inside(box, [0, y, x, h]);
}

/** Small groups that stand close to each other become one. @param {Item[][]} groups */
function joined(groups) {
  const small = groups.filter((group) => group.length <= 2 && !isBig(group[0]));
  const texts = (/** @type {Item[]} */ group) => group.filter(isText).length;
  for (let i = 0; i < small.length; i++) {
    for (let j = 0; j < small.length; j++) {
      if (i === j || small[i].length === 0 || small[j].length === 0 || texts(small[i]) + texts(small[j]) > 2) continue;
      if (!small[i].some((a) => small[j].some((b) => isClose(a, b)))) continue;
      small[i].push(...small[j].splice(0));
      j = -1;
    }
  }
  return groups.filter((group) => group.length > 0);
}

/** Is ``b`` the word beside the sign ``a``, the next rectangle in a row, a bar or a smaller word below? @param {Item} a @param {Item} b */
function isClose(a, b) {
  const [x, y, w, h] = a.box;
  const aside = b.box[0] - x - w;
  const level = b.box[1] < y + h && y < b.box[1] + b.box[3];
  if (!isText(a) && !isText(b)) return level && aside > -w && aside <= 3 && !isCard(a) && !isCard(b);
  if (!isText(a)) return level && w <= 30 && h <= 16 && aside >= 0 && aside <= 8;
  const down = (isText(b) ? b.mark.place[1] : b.box[1]) - a.mark.place[1];
  if (!isText(b)) return Math.abs(b.box[0] - x) < 1 && b.box[3] <= 8 && down >= 0 && down <= 8;
  const under = Math.abs(b.mark.place[0] - a.mark.place[0]) < 1 && a.look.anchor === b.look.anchor;
  return under && down > 6 && down <= 13.5 && w < 150 && b.box[2] < 150 && b.look.size <= a.look.size;
}

/** Units that stand on one line, from left to right; lines from top to bottom. @param {Unit[]} all @returns {Unit[][]} */
export function rows(all) {
  /** @type {Unit[][]} */
  const found = [];
  for (const unit of [...all].sort((a, b) => middle(a.box)[1] - middle(b.box)[1] || a.box[0] - b.box[0])) {
    const row = found[found.length - 1];
    const first = row?.[0].box;
    const level = (/** @type {Box} */ a, /** @type {Box} */ b) => inside(a, [a[0], b[1], a[2], b[3]]);
    if (first && (level(unit.box, first) || level(first, unit.box))) row.push(unit);
    else found.push([unit]);
  }
  return found.map((row) => row.sort((a, b) => a.box[0] - b.box[0]));
}

// ---- where it comes to lie

/** Line by line, from the left; what has no room begins a new one. @param {Unit[][]} all the lines of the wide picture @param {number} width @returns {Set} */
export function lines(all, width) {
  const { k, across, down } = scale(all, width);
  /** @type {Mark[]} */
  const marks = [];
  /** @type {Set[]} */
  let line = [];
  let [x, y] = [0, 0];
  const end = (/** @type {number} */ gap) => {
    const height = Math.max(0, ...line.map((one) => one.height));
    for (const one of line) marks.push(...one.marks.map((mark) => moved(mark, 0, y + (height - one.height) / 2)));
    if (line.length) y += height + gap;
    [line, x] = [[], 0];
  };
  let before = false;
  for (const row of all) {
    const words = row.some((unit) => unit.kind !== "block");
    if (words || before) end(6); // blocks alone go on where the last ones ended
    before = words;
    row.forEach((unit, i) => {
      const last = row[i - 1];
      const between = unit.gap ?? (last ? Math.min(14, Math.max(4, unit.box[0] - last.box[0] - last.box[2])) : across);
      const gap = between * (unit.kind === "block" ? k : 1);
      const { by, room } = needs(unit, k, width);
      const value = unit.value ? (unit.value.gap ?? 0) + needs(unit.value, k, width).room : 0;
      // A long text hangs beside what stands before it.
      const hangs = unit.kind === "text" && !value && x + gap <= 0.4 * width && room >= 0.4 * width;
      if (x > 0 && x + gap + room + value > width + 0.5 && !hangs) end(words ? 5 : down * k);
      const from = x ? x + gap : 0;
      const [first] = unit.items;
      if (unit.kind === "text" && isText(first)) {
        const text = paragraph(first, width - from);
        line.push({ marks: [moved(text, from, 0)], height: (text.lines ?? []).length * sizeOf(first) * LEADING });
      } else {
        const font = unit.kind === "words" ? 1 : by;
        line.push({ marks: scaled(unit.items, unit.box, { kx: by, ky: by, font }, from, 0), height: unit.box[3] * by });
      }
      x = from + Math.min(room, width - from);
    });
  }
  end(0);
  return { marks, height: y };
}

/** How much larger a unit is set than it was, and the room for that. @param {Unit} unit @param {number} k @param {number} width */
function needs({ items, kind, box }, k, width) {
  const texts = items.filter(isText).map(widthOf);
  if (kind === "text") return { by: 1, room: texts[0] };
  const by = Math.min(width / box[2], { block: k, sign: enlarged(items), words: 1.1 }[kind]);
  return { by, room: Math.max(box[2] * by, ...(kind === "words" ? texts : [])) };
}

/**
 * How much larger the blocks are: so that they can be read, and that many of one width fill their lines. And how far they are
 * from each other in the wide picture.
 * @param {Unit[][]} all @param {number} width
 */
function scale(all, width) {
  const bare = all.filter((row) => row.every((unit) => unit.kind === "block"));
  const blocks = all.flat().filter((unit) => unit.kind === "block");
  const least = enlarged(blocks.flatMap((unit) => unit.items));
  const [first, second] = bare.find((row) => row.length > 1) ?? [];
  if (!first) return { k: least, across: 8, down: 6 };
  const across = Math.min(14, Math.max(2, second.box[0] - first.box[0] - first.box[2]));
  const down = bare.length > 1 ? Math.min(10, Math.max(2, bare[1][0].box[1] - bare[0][0].box[1] - bare[0][0].box[3])) : 6;
  const alike = blocks.filter((unit) => Math.abs(unit.box[2] - first.box[2]) < 0.5).length;
  const columns = Math.floor((width / least + across) / (first.box[2] + across));
  if (columns < 1 || columns >= alike || alike < 0.9 * blocks.length) return { k: least, across, down };
  const filled = width / (columns * first.box[2] + (columns - 1) * across);
  return { k: Math.min(1.5 * least, filled), across, down };
}

/** A text from the left, in as many lines as it needs. @param {Words} one @param {number} width @returns {Mark} */
function paragraph(one, width) {
  const { mark, look } = one;
  const size = sizeOf(one);
  const found = [""];
  for (const word of mark.text.split(" ")) {
    const last = found[found.length - 1];
    const longer = `${last} ${word}`.trim();
    if (last && look.width(longer, size) > width) found.push(word);
    else found[found.length - 1] = longer;
  }
  const cls = mark.cls.split(" ").filter((word) => word !== "end" && word !== "mid");
  return { ...mark, cls: cls.join(" "), place: [0, size], size, lines: found };
}
