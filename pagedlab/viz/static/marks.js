// Pictures as maps of marks, and what a message changes in one.

/**
 * @typedef {object} Mark one thing to draw, see viz/marks.py
 * @property {string} id
 * @property {number[]} place
 * @property {string} cls
 * @property {string} text
 * @property {string} tip
 * @property {number} [size] of the text, where it is not its class's
 * @property {string[]} [lines] that the text is broken into
 */

/** @typedef {Map<string, Mark>} Picture */
/** @typedef {[id: string, place: number[], cls: string, text?: string, tip?: string]} SentMark */
/** @typedef {{ set: SentMark[], del: string[], like: Record<string, string[]> }} Patch */

/**
 * Marks that did not change stay the same objects, in every picture: that is how a view knows what to leave alone.
 * @param {Picture | null} base @param {Patch} patch @returns {Picture}
 */
export function patched(base, patch) {
  const marks = new Map(base ?? []);
  for (const id of patch.del) marks.delete(id);
  for (const [id, place, cls, text = "", tip = ""] of patch.set) marks.set(id, { id, place, cls, text, tip });
  copyBlocks(marks, patch.like);
  return marks;
}

/**
 * Blocks that look like another one get its marks, at their own place and with their own number, see viz/marks.py.
 * @param {Picture} marks @param {Record<string, string[]>} like
 */
function copyBlocks(marks, like) {
  const models = Object.entries(like);
  if (models.length === 0) return;
  /** @type {Map<string, Mark[]>} */
  const parts = new Map(); // block -> its marks
  for (const mark of marks.values()) {
    const block = /^.*?block\.[0-9]+/s.exec(mark.id)?.[0];
    if (block) parts.set(block, [...(parts.get(block) ?? []), mark]);
  }
  for (const [model, blocks] of models) {
    const from = known(marks, model);
    for (const block of blocks) {
      const to = known(marks, block);
      for (const { id } of known(parts, block)) marks.delete(id);
      for (const mark of known(parts, model)) {
        const id = block + mark.id.slice(model.length);
        const [x, y, ...size] = mark.place;
        const place = [tenth(x + to.place[0] - from.place[0]), tenth(y + to.place[1] - from.place[1]), ...size];
        const words = (/** @type {string} */ text) => (text === digits(model) ? digits(block) : text.replace(`#${digits(model)}`, `#${digits(block)}`));
        marks.set(id, { id, place, cls: mark.cls, text: words(mark.text), tip: words(mark.tip) });
      }
    }
  }
}

/** What is there: Python has sent it. @template T @param {Map<string, T>} map @param {string} key @returns {T} */
export const known = (map, key) => /** @type {T} */ (map.get(key));

/** @param {string} id */
const digits = (id) => id.slice(id.lastIndexOf(".") + 1);

/** @param {number} x */
const tenth = (x) => Math.round(10 * x) / 10;

