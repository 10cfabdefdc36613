// Charts and strips of slots on a narrow screen: as wide as it is, their text no narrower than it was.

import { taller } from "./flow.js";
import { container, has, inside, isPath, isText, LEAST, mapPath, sizeOf, textBox, union, widthOf } from "./items.js";

/** @typedef {import("./marks.js").Mark} Mark */
/** @typedef {import("./items.js").Box} Box */
/** @typedef {import("./items.js").Item} Item */
/** @typedef {import("./items.js").Words} Words */

const TOP = 8; // for the head of the cursor

/**
 * @param {Item[]} items @param {number} width
 * @param {number[]} plot x of its left and its right end
 * @param {Box[]} time the strip of time, where it is this chart
 */
export function chart(items, width, [left, right], time) {
  const beside = items.filter(isText).filter((one) => one.box[0] + one.box[2] <= left + 2);
  const inset = Math.max(0, ...beside.map((one) => widthOf(one) + left - one.box[0] - one.box[2]));
  const top = union([...items.map((one) => one.box), ...time.map(([x, y]) => [x, y, 0, 0])]);
  const kx = (width - inset) / (right - left);
  const ky = taller(items);
  const fx = (/** @type {number} */ x) => inset + (x - left) * (x < left ? 1 : kx);
  const fy = (/** @type {number} */ y) => TOP + (y - top[1]) * ky;
  const marks = items.filter((one) => !isText(one) && !has(one, "tag")).map((one) => {
    if (isPath(one)) return { ...one.mark, text: mapPath(one.mark.text, fx, fy, kx, ky) };
    const [x, y, w, h] = one.mark.place;
    return { ...one.mark, place: [fx(x), fy(y), fx(x + w) - fx(x), h * ky] };
  });
  /** @type {Box[]} */
  const taken = [];
  for (const one of items.filter(isText)) {
    const { mark, look } = one;
    const size = sizeOf(one);
    const from = fx(mark.place[0]);
    const text = shortened(one, room(one, items, fx, kx));
    const y = fy(mark.place[1] - 0.36 * look.size) + 0.36 * size; // its middle stays where it was
    const box = textBox([from, y], look.width(text, size), look, size);
    if (!text || taken.some((other) => overlap(box, other))) continue;
    taken.push(box);
    marks.push({ ...mark, text, size, place: [from, y] });
    const tag = items.find((other) => has(other, "tag") && inside(one.box, other.box));
    if (tag) marks.push({ ...tag.mark, place: [box[0] - 2, fy(tag.box[1]), box[2] + 4, tag.box[3] * ky] });
  }
  return { marks, height: TOP + top[3] * ky, to: (/** @type {number} */ x, /** @type {number} */ y) => [fx(x), fy(y)] };
}

/** How wide a text may be in the rectangle that it stands in. @param {Words} one @param {Item[]} items @param {(x: number) => number} fx @param {number} kx */
function room(one, items, fx, kx) {
  const around = container(one, items)?.box;
  if (!around) return Infinity;
  if (one.look.anchor === "middle") return around[2] * kx - 2;
  return fx(around[0] + around[2]) - Math.max(fx(one.mark.place[0]), fx(around[0])) - 2;
}

/** The text without the number behind it, where there is no room for both; nothing, where there is none for that. @param {Words} one @param {number} most */
function shortened(one, most) {
  const { text } = one.mark;
  return [text, text.replace(/ [\d.]+$/, "")].find((words) => one.look.width(words, sizeOf(one)) <= most) ?? "";
}

/** @param {Box} a @param {Box} b */
const overlap = (a, b) =>
  a[0] < b[0] + b[2] + 2 && b[0] < a[0] + a[2] + 2 && a[1] < b[1] + b[3] - 2.5 && b[1] < a[1] + a[3] - 2.5;

/** A long strip in several lines, as a text is. @param {Item[]} items @param {number} width @param {number[]} plot */
export function fold(items, width, [left, right]) {
  const count = Math.max(1, Math.round((right - left) / width));
  const length = (right - left) / count;
  const k = width / length;
  const box = union(items.map((one) => one.box));
  const pitch = (box[3] + 8) * k;
  const line = (/** @type {number} */ x) => Math.min(count - 1, Math.max(0, Math.floor((x - left) / length)));
  const marks = items.flatMap((one) => {
    const { mark } = one;
    const [x, y, w, h] = mark.place;
    const down = (/** @type {number} */ i) => (y - box[1]) * k + i * pitch;
    if (isText(one)) {
      const i = line(x);
      const size = Math.max(LEAST, one.look.size * k);
      const at = (x - left - i * length) * k;
      const [from, , long] = textBox([at, 0], one.look.width(mark.text, size), one.look, size);
      const within = Math.max(-from, Math.min(0, width - from - long)); // what was in the middle of a line may hang out now
      return [{ ...mark, size, place: [at + within, down(i)] }];
    }
    const [first, last] = [line(x + 0.5), line(x + Math.max(1, w) - 0.5)];
    return Array.from({ length: last - first + 1 }, (_, n) => {
      const start = left + (first + n) * length;
      const [from, to] = [n === 0 ? x : start, n === last - first ? x + w : start + length];
      const place = [(from - start) * k, down(first + n), (to - from) * k, h * k];
      return { ...mark, id: n ? `${mark.id}~${n}` : mark.id, place };
    });
  });
  return { marks, height: count * pitch - 8 * k };
}
