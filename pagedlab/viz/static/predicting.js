// Predicting on a page without a kernel: the recording holds the answers (viz/predicting.py).

import { known } from "./marks.js";

/** @typedef {{ ask: string, reply: string, right: Record<string, string>, wrong: string, of: string[] }} Question */
/** @typedef {{ names: Record<string, string>, score: string }} Words what marks are called, and how the score is said */

export class Predictions {
  /** @param {Words} words */
  constructor(words) {
    this.words = words;
    /** @type {Map<string, { step: number, asks: Question[], ids: Map<number, string> }>} */
    this.made = new Map(); // key of a picture -> what was asked there, and for which of it which mark was pointed at
  }

  /** A mark was pointed at. @param {string} key @param {number} step that answers @param {Question[]} asks @param {string} id */
  add(key, step, asks, id) {
    const which = asks.findIndex(({ of }) => of.length === 0 || of.includes(id));
    if (which < 0) return;
    const ids = new Map(this.made.get(key)?.ids).set(which, id);
    this.made.set(key, { step, asks, ids });
  }

  /** @param {string} key @returns {string[]} the marks that were pointed at */
  ids(key) {
    return [...(this.made.get(key)?.ids.values() ?? [])];
  }

  /** What stands beside the button: the question, or what was said. @param {string} key @param {Question[]} asks */
  question(key, asks) {
    const ids = this.made.get(key)?.ids;
    if (!ids) return [...new Set(asks.map(({ ask }) => ask))].join(" ");
    return [...ids].map(([which, id]) => this.fill(asks[which].reply, id)).join(" ");
  }

  /** How the predictions of a picture ended; "" where there are none. @param {string} key @param {number} seen steps, so far */
  verdict(key, seen) {
    const made = this.made.get(key);
    if (!made) return "";
    const ended = [...made.ids].map(([which, id]) => made.asks[which].right[id] ?? this.fill(made.asks[which].wrong, id));
    const decided = [...this.made.values()].filter(({ step }) => step <= seen);
    const right = decided.flatMap(({ asks, ids }) => [...ids].map(([which, id]) => id in asks[which].right));
    const score = this.words.score.replace("{right}", String(right.filter(Boolean).length));
    return [...ended, score.replace("{decided}", String(right.length))].join(" ");
  }

  /** @param {string} words @param {string} id */
  fill(words, id) {
    return words.replace("{guess}", this.words.names[id]);
  }
}

/** The outline around a mark that was pointed at. @param {Map<string, import("./marks.js").Mark>} marks @param {string} id */
export function outline(marks, id) {
  const [x, y, width, height] = known(marks, id).place;
  return { id: `guess.${id}`, place: [x - 3, y - 3, width + 6, height + 6], cls: "over guess", text: "", tip: "" };
}
