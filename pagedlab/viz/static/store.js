// What a lab's views show, and where they are among the steps.

import { known, patched } from "./marks.js";
import { outline, Predictions } from "./predicting.js";

/** @typedef {import("./marks.js").Picture} Picture */
/** @typedef {import("./predicting.js").Question} Question */
/** @typedef {[position: number, selected: string | null]} Key which picture */
/** @typedef {{ id: string | null, parts: import("./elements.js").Part[] }} Pane */
/** @typedef {{ steps: number, live: boolean, over: string }} Run */
/** @typedef {{ name: string, size: number[], areas: import("./narrow.js").Area[] }} Lab */
/** @typedef {{ next: string, verdict: string, question: string, say: string, asks?: Question[] }} Words around a picture */
/**
 * @typedef {import("./marks.js").Patch & Words & {
 *   lab: Lab, position: number, selected: string | null, base: Key | null, stale: (number | "all")[], run: Run, panes: Record<string, string>,
 *   strip: import("./marks.js").Patch & { version: number, base: number | null, size: import("./narrow.js").Strip | null },
 *   heard: number | null, pane?: undefined, error?: undefined,
 * }} Message a picture, see viz/widget.py
 */
/** @typedef {{ heard: number | null } & ({ pane: Pane, error?: undefined } | { error: string, pane?: undefined })} Answer */
/**
 * @typedef {object} Model what anywidget gives, or page.js
 * @property {((name: "picture") => Message) & ((name: "recorded") => Message[] | undefined) & ((name: "predicting") => import("./predicting.js").Words)} get
 * @property {(event: string, call: (message: any) => void) => void} on
 * @property {(event: string, call: (message: any) => void) => void} off
 * @property {(message: object) => void} send
 */

const PLAY_MS = 900;
const LATE_MS = 700;
const KEPT = 200; // pictures at most; older ones are asked for again
export const WAITING = "Waiting for the kernel …";
const SILENT_MS = 4_000;
const SILENT = "The kernel does not answer. It is busy; or it was restarted, and then run the cell again.";

/** @param {number} position @param {string | null} selected */
const key = (position, selected) => JSON.stringify([position, selected]);

/**
 * One for each lab, shared by all its views: the pictures seen, and where we are among them.
 *
 * What is sent to the kernel is numbered, and every message from there says what was the last one it had "heard" when it was
 * written. So an answer is known as one, and a picture from before our last move (another lab stepped the engine, or the kernel
 * was busy while we went on) is kept, but does not take us away from where we are.
 */
export class Store {
  /** @param {Model} model */
  constructor(model) {
    this.model = model;
    /** @type {Set<{ draw(): void }>} */
    this.views = new Set();
    this.number = 0; // of the last message that was sent: its time, so that pages of one lab do not mix theirs up
    this.moved = 0; // … that changed where we are
    /** @type {number | null} */
    this.waiting = null; // … that has to be answered, until it is
    /** @type {number | null} */
    this.want = null; // where the learner wants to be, while the pictures for it are on their way
    /** @type {string | null} */
    this.selected_wanted = null;
    this.note = "";
    /** @type {ReturnType<typeof setInterval> | undefined} */
    this.playing = undefined;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.late = undefined;
    /** @type {Pane | null} */
    this.pane = null; // the one that is unfolded
    this.receive = this.receive.bind(this);
    model.on("msg:custom", this.receive);
    const whole = model.get("picture");
    this.lab = whole.lab; // its name, its size, its areas
    /** @type {Map<string, Words & { marks: Picture }>} */
    this.pictures = new Map(); // by key, those seen last at the end
    /** @type {{ version: number, size: import("./narrow.js").Strip | null, marks: Picture }} */
    this.strip = { version: -1, size: null, marks: new Map() };
    this.run = whole.run;
    this.panes = whole.panes;
    this.seen = 0;
    this.position = whole.position;
    this.selected = whole.selected;
    this.recorded = model.get("recorded"); // a page that was saved has all steps in it
    this.predictions = this.recorded && new Predictions(model.get("predicting"));
    this.take(whole);
    for (const message of this.recorded ?? []) this.take(message);
    if (this.recorded) this.seen = whole.position;
  }

  close() {
    this.stop();
    clearTimeout(this.late);
    this.model.off("msg:custom", this.receive);
  }

  // ---- from the kernel

  /** @param {Message | Answer} message */
  receive(message) {
    const heard = message.heard ?? 0;
    if (this.waiting !== null && heard >= this.waiting) {
      clearTimeout(this.late);
      this.waiting = null;
      this.note = "";
    }
    if (message.pane !== undefined) {
      if (this.pane?.id === message.pane.id) this.pane = message.pane;
    } else if (message.error !== undefined) {
      this.want = null;
      this.stop();
      this.note = message.error;
    } else if (!this.take(message)) {
      this.ask({ do: "whole" }); // its base is not here (another browser tab has stepped)
    } else if (heard >= this.moved || !this.drawable) {
      this.position = message.position;
      this.selected = message.selected;
      // Where we wanted to be there is nothing any more: say where we are.
      if (heard < this.moved) this.moved = this.send({ do: "at", position: this.position, selected: this.selected }) ?? this.moved;
      if (this.want !== null && message.run.over) this.want = Math.min(this.want, message.position);
      if (this.want === this.position) this.want = null;
    }
    this.draw();
    this.advance();
  }

  /** Store a picture. False where it is a difference from one that is not here. @param {Message} message */
  take(message) {
    if (message.stale.includes("all")) {
      this.pictures.clear();
      this.seen = 0;
    }
    const base = message.base && this.pictures.get(key(...message.base));
    const strip = message.strip;
    if ((message.base && !base) || (strip.base !== null && strip.base !== this.strip.version)) return false;
    for (const position of message.stale) if (position !== "all") this.forget(position); // what happened after the last step now belongs to the next
    this.run = message.run;
    this.panes = message.panes;
    this.strip = { version: strip.version, size: strip.size, marks: patched(strip.base === null ? null : this.strip.marks, strip) };
    const { position: where, selected, next, verdict, question, say, asks } = message;
    const id = key(where, selected);
    this.pictures.delete(id);
    this.pictures.set(id, { marks: patched(base?.marks ?? null, message), next, verdict, question, say, asks });
    this.seen = Math.max(this.seen, where);
    for (const old of this.pictures.keys()) {
      if (this.recorded || this.pictures.size <= KEPT) break;
      if (old !== key(this.position, this.selected)) this.pictures.delete(old);
    }
    return true;
  }

  /** @param {number} position */
  forget(position) {
    for (const id of this.pictures.keys()) if (JSON.parse(id)[0] === position) this.pictures.delete(id);
  }

  // ---- from the learner

  get over() {
    return this.position === this.run.steps && this.run.over !== "";
  }

  /** @param {number} to @param {string | null} [selected] @returns {void} */
  go(to, selected = this.selected) {
    const position = Math.max(0, this.run.over ? Math.min(to, this.run.steps) : to);
    this.note = "";
    this.want = position;
    this.selected_wanted = selected;
    if (!this.pictures.has(key(position, selected))) return this.advance();
    this.want = null;
    if (position === this.position && selected === this.selected && this.waiting === null) return;
    this.position = position;
    this.selected = selected;
    this.seen = Math.max(this.seen, position);
    this.moved = this.send({ do: "at", position, selected }) ?? this.moved;
    this.draw();
  }

  /** Each click is a step: those that come while the kernel works are added up. @param {number} by */
  step(by) {
    this.go((this.want ?? this.position) + by);
  }

  /** Ask for the next picture on the way to where the learner wants to be. @returns {void} */
  advance() {
    if (this.waiting !== null || this.want === null) return;
    const position = Math.min(this.want, this.run.steps + 1);
    const selected = this.selected_wanted;
    if (this.pictures.has(key(position, selected))) return this.go(this.want, selected);
    this.ask({ do: "show", position, selected, have: [this.position, this.selected] });
    this.moved = this.waiting ?? this.moved;
  }

  /** @param {string} request */
  select(request) {
    this.go(this.position, request);
  }

  /** A mark that can be pointed at was clicked; the kernel knows what that means, or the recording. @param {string} id */
  point(id) {
    if (this.predictions) {
      this.predictions.add(key(this.position, this.selected), this.position + 1, this.asks, id);
      return this.draw();
    }
    if (!this.current.question || this.position !== this.seen) return;
    this.ask({ do: "point", id });
  }

  /** A mark that can be grabbed was dropped on another one. @param {string} what @param {string} onto */
  drop(what, onto) {
    if (this.position === this.run.steps) this.ask({ do: "drag", what, onto });
  }

  /** @param {string | null} id */
  open(id) {
    this.pane = id === null ? null : { id, parts: [] };
    if (id === null) this.send({ do: "pane", id });
    else this.ask({ do: "pane", id });
    this.draw();
  }

  /** @param {string} name @param {Record<string, unknown>} values */
  act(name, values) {
    this.note = "";
    this.ask({ do: "act", pane: this.pane?.id, name, values });
  }

  play() {
    if (this.playing) return this.stop();
    const tick = () => {
      if (this.over) return this.stop();
      if (this.waiting === null) this.step(1);
    };
    this.playing = setInterval(tick, PLAY_MS);
    tick();
    this.draw();
  }

  stop() {
    clearInterval(this.playing);
    this.playing = undefined;
    this.draw();
  }

  /** Send what has to be answered. A busy kernel is no error, but say so; until it answers, what was seen can be looked at. @param {object} message */
  ask(message) {
    const number = this.send(message);
    if (number !== null) {
      this.waiting = number;
      clearTimeout(this.late);
      this.late = setTimeout(() => this.wait(WAITING), LATE_MS);
      return;
    }
    this.waiting = this.want = null;
    this.stop();
    this.note = this.recorded
      ? "This page holds the recorded steps of one request only."
      : "The kernel is gone: only the steps seen so far can be shown. Run the cell again.";
    this.draw();
  }

  /** @param {string} note */
  wait(note) {
    this.note = note;
    if (note === WAITING) this.late = setTimeout(() => this.wait(SILENT), SILENT_MS);
    this.draw();
  }

  /** Returns the message's number, or null where there is no kernel. @param {object} message */
  send(message) {
    const number = Math.max(this.number + 1, Date.now());
    try {
      this.model.send({ ...message, n: number });
    } catch {
      return null;
    }
    this.number = number;
    return number;
  }

  // ---- what is drawn

  get drawable() {
    return this.pictures.has(key(this.position, this.selected));
  }

  get current() {
    return known(this.pictures, key(this.position, this.selected));
  }

  // What a recording asks here: nothing where the next step was seen already.
  get asks() {
    return this.position === this.seen && !this.over ? (this.current.asks ?? []) : [];
  }

  get question() {
    if (this.position !== this.seen || this.over) return "";
    const question = this.predictions?.question(key(this.position, this.selected), this.asks);
    return question || this.current.question;
  }

  get verdict() {
    return this.predictions?.verdict(key(this.position - 1, this.selected), this.seen) || this.current.verdict;
  }

  // The picture with all that depends on how far the run has got by now, and on what the learner pointed at.
  get shown() {
    const marks = new Map([...this.current.marks, ...this.strip.marks]);
    const step = marks.get("step");
    if (step) marks.set("step", { ...step, ...this.stepText() });
    for (const id of this.predictions?.ids(key(this.position, this.selected)) ?? []) {
      const around = outline(marks, id);
      marks.set(around.id, around);
    }
    return marks;
  }

  stepText() {
    const { position, run } = this;
    const past = run.live && position < run.steps;
    const more = past ? " · the past" : run.live && position > 0 && !run.over ? " so far" : "";
    return { text: `step ${position} of ${run.steps}${more}`, cls: `text s12 end ${past ? "bold" : "soft"}` };
  }

  draw() {
    if (!this.drawable) return; // all that was seen is void, and the new picture is on its way
    for (const view of this.views) view.draw();
  }
}
