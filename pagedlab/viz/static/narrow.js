// The picture for a narrow screen. Shrunk to its width nobody could read it; so its areas (viz/areas.py) are set one below the
// other, each in the way of its kind, and no text is smaller than LEAST. A picture has one layout, in Python; this turns that
// into one for a phone, and knows of no lab.

/** @typedef {import("./marks.js").Mark} Mark */
/** @typedef {{ size: number, anchor: string, width: (text: string, size: number) => number }} Look how a class of text is set */
/** @typedef {(cls: string) => Look} Looks */
/** @typedef {{ box: number[], kind: string, plot: number[] | null, heads: number[][] }} Area */
/** @typedef {{ left: number, top: number, width: number, height: number, columns: number }} Strip */
/** @typedef {{ mark: Mark, box: number[], look: Look | null }} Item a mark and where it lies: x, y, width, height */
/** @typedef {{ items: Item[], box: number[], kind: "block" | "sign" | "words" | "text", gap?: number, value?: Unit }} Unit what stays together: a block (in an area all are enlarged alike), a sign with a word, short words one above the other, a text */
/** @typedef {{ marks: Mark[], height: number, to?: (x: number, y: number) => number[] }} Placed from the area's own corner */

export const NARROW = 740; // pixels: a lab that is less wide is set anew
const LEAST = 11; // pixels: the smallest text
const PAD = 8;
const AREA_GAP = 12;
export const LEADING = 1.28;
const MOST_TALL = 1.7; // how much taller rows may get so that they have room for their words
const CHART_TOP = 8; // for the head of the cursor
const MANY = 100; // cards in rows too long to be broken
const INDENT = 16; // of a tree's node under the one before it

/**
 * @param {Iterable<Mark>} marks
 * @param {Area[]} areas in the order in which they stand on a narrow screen
 * @param {number} width of the screen, in pixels
 * @param {Strip | null} strip
 * @param {Looks} looks
 * @returns {{ marks: Map<string, Mark>, height: number, strip: Strip | null }}
 */
export function reflow(marks, areas, width, strip, looks) {
  const items = [...marks].map((mark) => item(mark, looks));
  const held = areas.map((area) => items.filter((one) => owner(one, areas) === area));
  const out = new Map();
  let y = PAD;
  let placedStrip = null;
  areas.forEach((area, i) => {
    if (held[i].length === 0) return;
    const heads = area.heads.flatMap((box) => items.filter((one) => one.look && inside(one.box, box)));
    const time = strip && inside([strip.left, strip.top, strip.width, strip.height], area.box) ? strip : null;
    const { marks: placed, height, to } = KINDS[area.kind](held[i], width - 2 * PAD, { area, heads, time });
    for (const mark of placed) out.set(mark.id, moved(mark, PAD, y));
    if (time && to) {
      const [left, top] = to(time.left, time.top);
      const [right, bottom] = to(time.left + time.width, time.top + time.height);
      const high = Math.min(bottom, height) - top;
      placedStrip = { left: left + PAD, top: top + y, width: right - left, height: high, columns: time.columns };
    }
    y += height + AREA_GAP;
  });
  return { marks: out, height: Math.ceil(y), strip: placedStrip };
}

/** @typedef {{ area: Area, heads: Item[], time: Strip | null }} About an area: the heads of its columns, the strip that is in it */
/** @type {Record<string, (items: Item[], width: number, about: About) => Placed>} */
const KINDS = { flow, whole, chart, fold, tree, table, omit: () => ({ marks: [], height: -AREA_GAP }) };

// ---- where marks lie

/** @param {Mark} mark @param {Looks} looks @returns {Item} */
function item(mark, looks) {
  const layer = mark.cls.split(" ", 1)[0];
  if (layer === "path") return { mark, box: [...pathStart(mark.text), 0, 0], look: null };
  if (layer !== "text") return { mark, box: mark.place, look: null };
  const look = looks(mark.cls);
  return { mark, box: textBox(mark.place, look.width(mark.text, look.size), look, look.size), look };
}

/** @param {number[]} place @param {number} width @param {Look} look @param {number} size */
function textBox([x, y], width, { anchor }, size) {
  const left = anchor === "end" ? x - width : anchor === "middle" ? x - width / 2 : x;
  return [left, y - 0.8 * size, width, size];
}

/** @param {Item} one @param {Area[]} areas the first that it lies in, else the nearest */
function owner(one, areas) {
  const [x, y] = one.look ? [one.mark.place[0], one.box[1] + one.box[3] / 2] : middle(one.box);
  const far = ([left, top, w, h]) => Math.hypot(Math.max(left - x, 0, x - left - w), Math.max(top - y, 0, y - top - h));
  return areas.reduce((best, area) => (far(area.box) < far(best.box) ? area : best));
}

const middle = ([x, y, w, h]) => [x + w / 2, y + h / 2];

/** Does the middle of one box lie in the other? @param {number[]} box @param {number[]} around */
function inside(box, [x, y, w, h]) {
  const [a, b] = middle(box);
  return x <= a && a <= x + w && y <= b && b <= y + h;
}

/** @param {number[][]} boxes */
function union(boxes) {
  const left = Math.min(...boxes.map((b) => b[0]));
  const top = Math.min(...boxes.map((b) => b[1]));
  const right = Math.max(...boxes.map((b) => b[0] + b[2]));
  return [left, top, right - left, Math.max(...boxes.map((b) => b[1] + b[3])) - top];
}

/** @param {Mark} mark @param {number} dx @param {number} dy @returns {Mark} */
function moved(mark, dx, dy) {
  if (mark.place.length === 0) return { ...mark, text: mapPath(mark.text, (x) => x + dx, (y) => y + dy, 1, 1) };
  const [x, y, ...size] = mark.place;
  return { ...mark, place: [x + dx, y + dy, ...size] };
}

// ---- a group of marks, enlarged as one

/**
 * The marks of a group whose corner comes to x, y. Text that would be too small is larger than the rest, and cut where the
 * rectangle that it stands in has no room for it.
 * @param {Item[]} items @param {number[]} box @param {number} k @param {number} x @param {number} y @returns {Mark[]}
 */
function scaled(items, [left, top], k, x, y, font = k, ky = k) {
  const fx = (at) => x + (at - left) * k;
  const fy = (at) => y + (at - top) * ky;
  return items.flatMap((one) => {
    const { mark, look } = one;
    if (mark.place.length === 0) return [{ ...mark, text: mapPath(mark.text, fx, fy, k, ky) }];
    const [a, b, w, h] = mark.place;
    if (!look) return [{ ...mark, place: [fx(a), fy(b), w * k, h * ky] }];
    const grown = Math.max(LEAST, look.size * font);
    const text = grown > look.size * k + 0.05 ? fitted(one, items, k, grown) : mark.text;
    return text ? [{ ...mark, place: [fx(a), fy(b)], size: grown, text }] : [];
  });
}

/** The text, or as much of it as its rectangle has room for. @param {Item} one @param {Item[]} items */
function fitted(one, items, k, size) {
  const around = container(one, items);
  return around ? cut(one.mark.text, around.box[2] * k - 2, size, one.look) : one.mark.text;
}

/** The smallest rectangle that a text stands in, and has room in. @param {Item} one @param {Item[]} items @returns {Item | undefined} */
function container(one, items) {
  const around = items.filter((other) => !other.look && other.box[2] >= one.box[2] && inside(one.box, other.box));
  return around.filter((other) => !has(other, "tag")).sort((a, b) => a.box[2] - b.box[2])[0];
}

const has = (one, word) => one.mark.cls.split(" ").includes(word);
const isCard = (one) => has(one, "card") && !has(one, "track");

/** A number is whole or not there. @param {string} text @param {number} room @param {number} size @param {Look} look */
function cut(text, room, size, look) {
  if (look.width(text, size) <= room) return text;
  if (/\d/.test(text)) return "";
  for (let n = text.length - 1; n > 1; n--) {
    const shorter = `${text.slice(0, n).trimEnd()}…`;
    if (look.width(shorter, size) <= room) return shorter;
  }
  return "";
}

const smallest = (items) => Math.min(...items.flatMap((one) => (one.look ? [one.look.size] : [])), Infinity);
const enlarged = (items) => Math.max(1, LEAST / smallest(items));

/** One piece, which has room as it is. @param {Item[]} items @param {number} width @returns {Placed} */
function whole(items, width) {
  const box = union(items.map((one) => one.box));
  const kx = Math.min(enlarged(items), width / box[2]);
  const ky = Math.min(enlarged(items), MOST_TALL);
  return { marks: scaled(items, box, kx, 0, 0, kx, ky), height: box[3] * ky };
}

// ---- flow: blocks and texts one behind the other, in as many lines as it takes

/** @param {Item[]} items @param {number} width @returns {Placed} */
function flow(items, width) {
  if (items.filter(isCard).length > MANY) return whole(items, width);
  const { backs, rest } = apart(oneText(items), width);
  const { marks, height } = laid(lines(units(rest, width)), width);
  const behind = backs.map(({ mark }) => ({ ...mark, place: [-PAD / 2, -PAD / 2, width + PAD, height + PAD] }));
  return { marks: [...behind, ...marks], height };
}

/** Lines that Python has broken one text into (they have the whole of it as their tip) become that text again. */
function oneText(items) {
  /** @type {Item[]} */
  const out = [];
  for (const one of items) {
    const first = one.look && one.mark.tip && out.find((b) => b.look && b.mark.tip === one.mark.tip && b.mark.place[0] === one.mark.place[0]);
    if (first) first.mark = { ...first.mark, text: `${first.mark.text} ${one.mark.text}` };
    else out.push({ ...one });
  }
  return out;
}

/** What is wider than the screen lies behind all else; thin lines and arrows lead nowhere any more. @param {Item[]} items */
function apart(items, width) {
  const wide = (one) => !one.look && one.box[2] > width;
  const rest = items.filter((one) => !wide(one) && one.mark.place.length > 0);
  return { backs: items.filter((one) => wide(one) && one.box[3] > 2), rest };
}

/** What belongs together. @param {Item[]} items @param {number} width @returns {Unit[]} */
function units(items, width) {
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
  const loose = [];
  for (const one of items) {
    if (taken.has(one)) continue;
    const group = groups.find(([card]) => inside(one.box, card.box) || (one.look && names(one, card)));
    if (group) group.push(one);
    else loose.push([one]);
  }
  return joined([...groups, ...loose]).map((group) => {
    const kind = group.some(big) ? "block" : group.some((one) => !one.look) ? "sign" : group.length > 1 ? "words" : "text";
    return { items: group, box: union(group.map((one) => one.box)), kind };
  });
}

/** Does the text stand right under the card, or right in front of it? @param {Item} text @param {Item} card */
function names({ box, look }, { box: [x, y, w, h] }) {
  const under = box[1] + box[3] - y - h;
  if (look.anchor === "middle") return Math.abs(box[0] + box[2] / 2 - x - w / 2) < 2 && under > 0 && under < 18;
  return look.anchor === "end" && x - box[0] - box[2] >= 0 && x - box[0] - box[2] < 6 && box[2] < 12 && h > 20 && inside(box, [0, y, x, h]);
}

/** Groups of one mark that stand close to another one are one with it. @param {Item[][]} groups */
function joined(groups) {
  const small = groups.filter((group) => group.length <= 2 && !big(group[0]));
  for (let i = 0; i < small.length; i++) {
    for (let j = 0; j < small.length; j++) {
      if (i === j || small[i].length === 0 || small[j].length === 0 || words(small[i]) + words(small[j]) > 2) continue;
      if (!small[i].some((a) => small[j].some((b) => close(a, b)))) continue;
      small[i].push(...small[j].splice(0));
      j = -1;
    }
  }
  return groups.filter((group) => group.length > 0);
}

const words = (group) => group.filter((one) => one.look).length;
const big = (one) => isCard(one) && (one.box[2] > 30 || one.box[3] > 16);

/** Is ``b`` the word beside the swatch ``a``, the next rectangle in a row, or a line below? @param {Item} a @param {Item} b */
function close(a, b) {
  const [x, y, w, h] = a.box;
  const aside = b.box[0] - x - w;
  const level = b.box[1] < y + h && y < b.box[1] + b.box[3];
  if (!a.look && !b.look) return level && aside > -w && aside <= 3 && !isCard(a) && !isCard(b);
  if (!a.look) return level && w <= 30 && h <= 16 && aside >= 0 && aside <= 8;
  const down = b.look ? b.mark.place[1] - a.mark.place[1] : b.box[1] - a.mark.place[1];
  if (!b.look) return Math.abs(b.box[0] - x) < 1 && b.box[3] <= 8 && down >= 0 && down <= 8;
  const level0 = Math.abs(b.mark.place[0] - a.mark.place[0]) < 1 && a.look.anchor === b.look.anchor;
  return level0 && down > 6 && down <= 13.5 && w < 150 && b.box[2] < 150 && b.look.size <= a.look.size;
}

/** Units that stand on one line, from left to right; lines from top to bottom. @param {Unit[]} all @returns {Unit[][]} */
function lines(all) {
  /** @type {Unit[][]} */
  const found = [];
  for (const unit of [...all].sort((a, b) => middle(a.box)[1] - middle(b.box)[1] || a.box[0] - b.box[0])) {
    const line = found.at(-1);
    const [, y] = middle(unit.box);
    const first = line?.[0].box;
    if (first && ((y >= first[1] && y <= first[1] + first[3]) || inside(first, [first[0], unit.box[1], first[2], unit.box[3]]))) {
      line.push(unit);
    } else found.push([unit]);
  }
  return found.map((line) => line.sort((a, b) => a.box[0] - b.box[0]));
}

/** Line by line, from the left; what has no room begins a new one. @param {Unit[][]} rows @param {number} width @returns {Placed} */
function laid(rows, width) {
  const { k, across, down } = scale(rows, width);
  /** @type {Mark[]} */
  const out = [];
  /** @type {{ marks: Mark[], height: number }[]} */
  let row = [];
  let x = 0;
  let y = 0;
  const endRow = (gap) => {
    const height = Math.max(0, ...row.map((one) => one.height));
    for (const one of row) out.push(...one.marks.map((mark) => moved(mark, 0, y + (height - one.height) / 2)));
    if (row.length) y += height + gap;
    row = [];
    x = 0;
  };
  const add = (marks, from, needs, height) => {
    row.push({ marks, height });
    x = from + needs;
  };
  let before = false;
  for (const line of rows) {
    const words = line.some((unit) => unit.kind !== "block");
    if (words || before) endRow(6); // blocks alone go on where the last ones ended
    before = words;
    let last = null;
    for (const unit of line) {
      const between = unit.gap ?? (last ? Math.min(14, Math.max(4, unit.box[0] - last.box[0] - last.box[2])) : across);
      const gap = x === 0 ? 0 : between * (unit.kind === "block" ? k : 1);
      last = unit;
      if (unit.kind === "text") {
        const [one] = unit.items;
        const size = Math.max(LEAST, one.look.size);
        const needs = one.look.width(one.mark.text, size);
        const value = unit.value ? unit.value.gap + needed(unit.value, k, width).width : 0;
        if (x > 0 && x + gap + needs + value > width && (value || x + gap > 0.4 * width || needs < 0.4 * width)) endRow(4);
        const from = x ? x + gap : 0;
        const text = paragraph(one, size, width - from);
        add([moved(text, from, 0)], from, Math.min(needs, width - from), text.lines.length * size * LEADING);
        continue;
      }
      const { by, width: needs } = needed(unit, k, width);
      if (x > 0 && x + gap + needs > width + 0.5) endRow(words ? 5 : down * k);
      const from = x ? x + gap : 0;
      add(scaled(unit.items, unit.box, by, from, 0, unit.kind === "words" ? 1 : by), from, needs, unit.box[3] * by);
    }
  }
  endRow(0);
  return { marks: out, height: y };
}

/** How much larger a unit is set than it was, and the room for that. @param {Unit} unit @param {number} k @param {number} width */
function needed({ items, kind, box }, k, width) {
  const sizes = items.map(({ mark, look }) => (look ? look.width(mark.text, Math.max(LEAST, look.size)) : 0));
  if (kind === "text") return { by: 1, width: sizes[0] };
  const by = Math.min(width / box[2], { block: k, sign: enlarged(items), words: 1.1 }[kind]);
  return { by, width: Math.max(box[2] * by, ...(kind === "words" ? sizes : [])) };
}

/**
 * How much larger the blocks are: so that they can be read, and that many of one width fill their lines. And how far they are
 * from each other in the wide picture.
 * @param {Unit[][]} rows @param {number} width
 */
function scale(rows, width) {
  const bare = rows.filter((row) => row.every((unit) => unit.kind === "block"));
  const blocks = rows.flat().filter((unit) => unit.kind === "block");
  const [first, second] = bare.find((row) => row.length > 1) ?? [];
  const across = second ? Math.min(14, Math.max(2, second.box[0] - first.box[0] - first.box[2])) : 8;
  const down = bare.length > 1 ? Math.min(10, Math.max(2, bare[1][0].box[1] - bare[0][0].box[1] - bare[0][0].box[3])) : 6;
  const least = enlarged(blocks.flatMap((unit) => unit.items));
  const alike = first ? blocks.filter((unit) => Math.abs(unit.box[2] - first.box[2]) < 0.5).length : 0;
  const columns = first ? Math.floor((width / least + across) / (first.box[2] + across)) : 0;
  if (columns < 1 || columns >= alike || alike < 0.9 * blocks.length) return { k: least, across, down };
  const filled = width / (columns * first.box[2] + (columns - 1) * across);
  return { k: Math.min(1.5 * least, filled), across, down };
}

/** A text from the left, in as many lines as it needs. @param {Item} one @param {number} size @param {number} width */
function paragraph({ mark, look }, size, width) {
  const found = [""];
  for (const word of mark.text.split(" ")) {
    const longer = `${found.at(-1)} ${word}`.trim();
    if (found.at(-1) && look.width(longer, size) > width) found.push(word);
    else found[found.length - 1] = longer;
  }
  const cls = mark.cls.split(" ").filter((word) => word !== "end" && word !== "mid");
  return { ...mark, cls: cls.join(" "), place: [0, size], size, lines: found };
}

// ---- a chart: as wide as the screen, and its text no narrower

/** @param {Item[]} items @param {number} width @param {About} about @returns {Placed} */
function chart(items, width, { area: { plot: [left, right] }, time }) {
  const beside = items.filter((one) => one.look && one.box[0] + one.box[2] <= left + 2);
  const sized = (one) => Math.max(LEAST, one.look.size);
  const inset = Math.max(0, ...beside.map((one) => one.look.width(one.mark.text, sized(one)) + left - one.box[0] - one.box[2]));
  const box = union([...items.map((one) => one.box), ...(time ? [[time.left, time.top, 0, 0]] : [])]);
  const kx = (width - inset) / (right - left);
  const ky = Math.min(enlarged(items), MOST_TALL);
  const fx = (x) => inset + (x - left) * (x < left ? 1 : kx);
  const fy = (y) => CHART_TOP + (y - box[1]) * ky;
  const rects = items.filter((one) => !one.look && !has(one, "tag")).map(({ mark }) => {
    if (mark.place.length === 0) return { ...mark, text: mapPath(mark.text, fx, fy, kx, ky) };
    const [x, y, w, h] = mark.place;
    return { ...mark, place: [fx(x), fy(y), fx(x + w) - fx(x), h * ky] };
  });
  /** @type {Mark[]} */
  const texts = [];
  /** @type {number[][]} */
  const taken = [];
  for (const one of items.filter((other) => other.look)) {
    const { mark, look } = one;
    const size = sized(one);
    const around = container(one, items);
    const from = fx(mark.place[0]);
    const room = around ? fx(around.box[0] + around.box[2]) - Math.max(from, fx(around.box[0])) - 2 : Infinity;
    const least = around && look.anchor === "middle" ? around.box[2] * kx - 2 : room;
    const text = shortened(mark.text, least, size, look);
    const y = fy(mark.place[1] - 0.36 * look.size) + 0.36 * size; // its middle stays where it was
    const at = textBox([from, y], look.width(text, size), look, size);
    const over = taken.some((b) => at[0] < b[0] + b[2] + 2 && b[0] < at[0] + at[2] + 2 && at[1] < b[1] + b[3] - 2.5 && b[1] < at[1] + at[3] - 2.5);
    if (!text || over) continue;
    taken.push(at);
    texts.push({ ...mark, text, size, place: [from, y] });
    const tag = items.find((other) => has(other, "tag") && inside(one.box, other.box));
    if (tag) rects.push({ ...tag.mark, place: [at[0] - 2, fy(tag.box[1]), at[2] + 4, tag.box[3] * ky] });
  }
  return { marks: [...rects, ...texts], height: CHART_TOP + box[3] * ky, to: (x, y) => [fx(x), fy(y)] };
}

/** The text without the number behind it, where there is no room for both; nothing, where there is none for that. */
function shortened(text, room, size, look) {
  const name = text.replace(/ [\d.]+$/, "");
  return [text, name].find((one) => look.width(one, size) <= room) ?? "";
}

// ---- a strip of slots: folded, as a long line of text is

/** @param {Item[]} items @param {number} width @param {About} about @returns {Placed} */
function fold(items, width, { area: { plot: [left, right] } }) {
  const count = Math.max(1, Math.round((right - left) / width));
  const length = (right - left) / count;
  const k = width / length;
  const box = union(items.map((one) => one.box));
  const pitch = (box[3] + 8) * k;
  const line = (x) => Math.min(count - 1, Math.max(0, Math.floor((x - left) / length)));
  const marks = items.flatMap((one) => {
    const { mark, look } = one;
    const [x, y, w, h] = mark.place;
    const down = (i) => (y - box[1]) * k + i * pitch;
    if (look) {
      const i = line(x);
      const size = Math.max(LEAST, look.size * k);
      return [{ ...mark, size, place: [(x - left - i * length) * k, down(i)] }];
    }
    const [first, last] = [line(x + 0.5), line(x + Math.max(1, w) - 0.5)];
    return Array.from({ length: last - first + 1 }, (_, n) => {
      const start = left + (first + n) * length;
      const [from, to] = [n === 0 ? x : start, n === last - first ? x + w : start + length];
      return { ...mark, id: n ? `${mark.id}~${n}` : mark.id, place: [(from - start) * k, down(first + n), (to - from) * k, h * k] };
    });
  });
  return { marks, height: count * pitch - 8 * k };
}

// ---- a tree: each node under the one before it, as in a table of contents

/** @param {Item[]} items @param {number} width @returns {Placed} */
function tree(items, width) {
  const edges = items.filter((one) => one.mark.place.length === 0);
  const nodes = units(items.filter((one) => one.mark.place.length > 0), width);
  const near = (unit, [x, y], side) => {
    const card = unit.items[0].box;
    return Math.abs(card[0] + side * card[2] - x) < 2 && y > card[1] && y < card[1] + card[3];
  };
  const from = new Map(); // node -> the edge that leads to it, and from where
  for (const edge of edges) {
    const [start, end] = [nodes.find((n) => near(n, pathStart(edge.mark.text), 1)), nodes.find((n) => near(n, pathEnd(edge.mark.text), 0))];
    if (start && end) from.set(end, { edge, start });
  }
  const k = enlarged(nodes.flatMap((node) => node.items));
  /** @type {Mark[]} */
  const marks = [];
  let y = 0;
  const put = (node, depth, above) => {
    const x = Math.min(depth * INDENT, width - node.box[2] * k);
    const middleY = y + (node.items[0].box[3] * k) / 2;
    marks.push(...scaled(node.items, node.box, k, x, y));
    if (above) marks.push({ ...from.get(node).edge.mark, text: `M${x - INDENT + 6} ${above.bottom}V${middleY}H${x}` });
    y += node.box[3] * k + 6;
    const bottom = y - 6;
    for (const next of nodes.filter((other) => from.get(other)?.start === node)) put(next, depth + 1, { bottom });
  };
  for (const node of nodes) if (!from.has(node)) put(node, 0, null);
  return { marks, height: y };
}

// ---- a table: each row on lines of its own, each value behind the head of its column

/** @param {Item[]} items @param {number} width @param {About} about @returns {Placed} */
function table(items, width, { heads }) {
  const { rest } = apart(items.filter((one) => !heads.includes(one) && !has(one, "over")), width);
  const rows = lines(units(rest, width));
  const spread = rows.map((row) =>
    row.flatMap((unit) => {
      const head = headOf(unit, heads);
      if (!head) return [unit];
      const value = { ...unit, gap: 5 };
      const mark = { ...head.mark, id: `${head.mark.id}~${unit.items[0].mark.id}`, cls: head.mark.cls.replace(" bold", " soft") };
      return [{ items: [{ ...head, mark, look: { ...head.look, size: LEAST } }], box: unit.box, kind: /** @type {"text"} */ ("text"), gap: 14, value }, value];
    }),
  );
  // Set line by line: what is one row here stays apart from the next.
  /** @type {Mark[]} */
  const marks = [];
  let y = 0;
  for (const row of spread) {
    const placed = laid([row], width);
    marks.push(...placed.marks.map((mark) => moved(mark, 0, y)));
    y += placed.height + 8;
  }
  return { marks, height: y - 8 };
}

/** @param {Unit} unit @param {Item[]} heads */
function headOf(unit, heads) {
  const edge = ({ box }, end) => box[0] + (end ? box[2] : 0);
  const off = (head) => Math.abs(edge(head, head.look.anchor === "end") - edge(unit, head.look.anchor === "end"));
  const best = heads.reduce((a, b) => (a && off(a) <= off(b) ? a : b), /** @type {Item | null} */ (null));
  return best && off(best) < 12 ? best : null;
}

// ---- outlines in SVG's path language

const STEP = /([MHVLQmhvlqZz])([^A-Za-z]*)/g;

/** @param {string} path @param {(x: number) => number} fx @param {(y: number) => number} fy @param {number} kx @param {number} ky */
function mapPath(path, fx, fy, kx, ky) {
  const one = (command, value, i) => {
    const across = command === "h" || command === "H" || (command.toLowerCase() !== "v" && i % 2 === 0);
    const mapped = command === command.toLowerCase() ? value * (across ? kx : ky) : across ? fx(value) : fy(value);
    return Math.round(mapped * 10) / 10;
  };
  return path.replace(STEP, (_, command, values) => command + numbers(values).map((value, i) => one(command, value, i)).join(" "));
}

const numbers = (text) => (text.match(/-?[0-9.]+/g) ?? []).map(Number);

/** @param {string} path */
const pathStart = (path) => /** @type {number[]} */ (numbers(/M([^A-Za-z]*)/.exec(path)?.[1] ?? "0 0").slice(0, 2));

/** Where a path of straight lines ends. @param {string} path */
function pathEnd(path) {
  let [x, y] = pathStart(path);
  for (const [, command, values] of path.matchAll(STEP)) {
    const found = numbers(values);
    if (command === "H") x = found.at(-1);
    if (command === "V") y = found.at(-1);
    if (command === "L") [x, y] = found.slice(-2);
  }
  return [x, y];
}
