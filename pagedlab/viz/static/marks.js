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

// Marks that did not change stay the same objects, in every picture: that is how a view knows what to leave alone.
export function patched(base, patch) {
  const marks = new Map(base ?? []);
  for (const id of patch.del) marks.delete(id);
  for (const [id, place, cls, text = "", tip = ""] of patch.set) marks.set(id, { id, place, cls, text, tip });
  copyBlocks(marks, patch.like);
  return marks;
}

// Blocks that look like another one get its marks, at their own place and with their own number, see viz/marks.py.
function copyBlocks(marks, like) {
  const models = Object.entries(like);
  if (models.length === 0) return;
  const parts = new Map(); // block -> its marks
  for (const mark of marks.values()) {
    const block = /^.*?block\.[0-9]+/s.exec(mark.id)?.[0];
    if (block) parts.set(block, [...(parts.get(block) ?? []), mark]);
  }
  for (const [model, blocks] of models) {
    const from = marks.get(model);
    for (const block of blocks) {
      const to = marks.get(block);
      for (const { id } of parts.get(block)) marks.delete(id);
      for (const mark of parts.get(model)) {
        const id = block + mark.id.slice(model.length);
        const [x, y, ...size] = mark.place;
        const place = [tenth(x + to.place[0] - from.place[0]), tenth(y + to.place[1] - from.place[1]), ...size];
        const words = (text) => (text === digits(model) ? digits(block) : text.replace(`#${digits(model)}`, `#${digits(block)}`));
        marks.set(id, { id, place, cls: mark.cls, text: words(mark.text), tip: words(mark.tip) });
      }
    }
  }
}

const digits = (id) => id.slice(id.lastIndexOf(".") + 1);
const tenth = (x) => Math.round(10 * x) / 10;

