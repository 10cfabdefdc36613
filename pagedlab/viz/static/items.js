// The marks of a picture with the room that they take, for setting them anew on a narrow screen (narrow.js).

/** @typedef {import("./marks.js").Mark} Mark */
/** @typedef {number[]} Box x, y, width, height */
/** @typedef {{ size: number, anchor: string, width: (text: string, size: number) => number }} Look how a class of text is set */
/** @typedef {{ mark: Mark, box: Box, look: Look | null }} Item */
/** @typedef {Item & { look: Look }} Words an item that is text */

export const LEAST = 11; // pixels: the smallest text

/** @param {Mark} mark @param {(cls: string) => Look} looks @returns {Item} */
export function itemOf(mark, looks) {
  const layer = mark.cls.split(" ", 1)[0];
  if (layer === "path") return { mark, box: [...pathStart(mark.text), 0, 0], look: null };
  if (layer !== "text") return { mark, box: mark.place, look: null };
  const look = looks(mark.cls);
  return { mark, box: textBox(mark.place, look.width(mark.text, look.size), look, look.size), look };
}

/** @param {number[]} place @param {number} width @param {Look} look @param {number} size @returns {Box} */
export function textBox([x, y], width, { anchor }, size) {
  const left = anchor === "end" ? x - width : anchor === "middle" ? x - width / 2 : x;
  return [left, y - 0.8 * size, width, size];
}

/** @param {Item} one @returns {one is Words} */
export const isText = (one) => one.look !== null;

/** @param {Item} one */
export const isPath = (one) => one.mark.place.length === 0;

/** @param {Item} one @param {string} word */
export const has = (one, word) => one.mark.cls.split(" ").includes(word);

/** @param {Item} one */
export const isCard = (one) => has(one, "card") && !has(one, "track");

/** @param {Box} box */
export const middle = ([x, y, w, h]) => [x + w / 2, y + h / 2];

/** Does the middle of one box lie in the other? @param {Box} box @param {Box} around */
export function inside(box, [x, y, w, h]) {
  const [a, b] = middle(box);
  return x <= a && a <= x + w && y <= b && b <= y + h;
}

/** @param {Box[]} boxes @returns {Box} */
export function union(boxes) {
  const left = Math.min(...boxes.map((b) => b[0]));
  const top = Math.min(...boxes.map((b) => b[1]));
  const right = Math.max(...boxes.map((b) => b[0] + b[2]));
  return [left, top, right - left, Math.max(...boxes.map((b) => b[1] + b[3])) - top];
}

/** How much larger items have to be, so that their smallest text can be read. @param {Item[]} items */
export const enlarged = (items) => Math.max(1, ...items.filter(isText).map((one) => LEAST / one.look.size));

/** @param {Words} one */
export const sizeOf = (one) => Math.max(LEAST, one.look.size);

/** @param {Words} one */
export const widthOf = (one) => one.look.width(one.mark.text, sizeOf(one));

/** @param {Mark} mark @param {number} dx @param {number} dy @returns {Mark} */
export function moved(mark, dx, dy) {
  if (mark.place.length === 0) return { ...mark, text: mapPath(mark.text, (x) => x + dx, (y) => y + dy) };
  const [x, y, ...size] = mark.place;
  return { ...mark, place: [x + dx, y + dy, ...size] };
}

/**
 * The marks of items, enlarged as one, whose corner comes to x, y. Text that would be too small gets larger than the rest, and
 * is cut where the rectangle that it stands in has no room for it. ``font``: how much larger the text is.
 * @param {Item[]} items @param {Box} box of all of them
 * @param {{ kx: number, ky: number, font: number }} by @param {number} x @param {number} y @returns {Mark[]}
 */
export function scaled(items, [left, top], { kx, ky, font }, x, y) {
  const fx = (/** @type {number} */ at) => x + (at - left) * kx;
  const fy = (/** @type {number} */ at) => y + (at - top) * ky;
  return items.flatMap((one) => {
    const { mark } = one;
    if (isPath(one)) return [{ ...mark, text: mapPath(mark.text, fx, fy, kx, ky) }];
    const [a, b, w, h] = mark.place;
    if (!isText(one)) return [{ ...mark, place: [fx(a), fy(b), w * kx, h * ky] }];
    const size = Math.max(LEAST, one.look.size * font);
    const around = size > one.look.size * kx + 0.05 ? container(one, items) : undefined;
    const text = around ? cut(mark.text, around.box[2] * kx - 2, size, one.look) : mark.text;
    return text ? [{ ...mark, place: [fx(a), fy(b)], size, text }] : [];
  });
}

/** The smallest rectangle that a text stands in, and has room in. @param {Words} one @param {Item[]} items */
export function container(one, items) {
  const around = items.filter((other) => !isText(other) && other.box[2] >= one.box[2] && inside(one.box, other.box));
  return around.filter((other) => !has(other, "tag")).sort((a, b) => a.box[2] - b.box[2])[0];
}

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

// ---- outlines in SVG's path language

const STEP = /([MHVLQmhvlqZz])([^A-Za-z]*)/g;

/**
 * Absolute coordinates go through fx and fy, relative ones are multiplied.
 * @param {string} path @param {(x: number) => number} fx @param {(y: number) => number} fy @param {number} [kx] @param {number} [ky]
 */
export function mapPath(path, fx, fy, kx = 1, ky = 1) {
  return path.replace(STEP, (_, /** @type {string} */ command, /** @type {string} */ values) => {
    const relative = command === command.toLowerCase();
    const mapped = numbers(values).map((value, i) => {
      const across = /h/i.test(command) || (!/v/i.test(command) && i % 2 === 0);
      return Math.round(10 * (relative ? value * (across ? kx : ky) : across ? fx(value) : fy(value))) / 10;
    });
    return command + mapped.join(" ");
  });
}

/** @param {string} text */
const numbers = (text) => (text.match(/-?[0-9.]+/g) ?? []).map(Number);

/** @param {string} path */
export const pathStart = (path) => numbers(/M([^A-Za-z]*)/.exec(path)?.[1] ?? "0 0").slice(0, 2);

/** Where a path of straight lines ends. @param {string} path */
export function pathEnd(path) {
  let [x, y] = pathStart(path);
  for (const [, command, values] of path.matchAll(STEP)) {
    const found = numbers(values);
    if (command === "H") x = found[found.length - 1];
    if (command === "V") y = found[found.length - 1];
    if (command === "L") [x, y] = found.slice(-2);
  }
  return [x, y];
}
