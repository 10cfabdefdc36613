// What a lab's views show, and where they are among the steps.

import { patched } from "./marks.js";

const PLAY_MS = 900;
const LATE_MS = 700;
const KEPT = 200; // pictures at most; older ones are asked for again
export const WAITING = "Waiting for the kernel …";
const SILENT_MS = 4_000;
const SILENT = "The kernel does not answer. It is busy; or it was restarted, and then run the cell again.";

const key = (position, selected) => JSON.stringify([position, selected]);

// One for each lab, shared by all its views: the pictures seen, and where we are among them.
//
// What is sent to the kernel is numbered, and every message from there says what was the last one it had "heard" when it was
// written. So an answer is known as one, and a picture from before our last move (another lab stepped the engine, or the kernel
// was busy while we went on) is kept, but does not take us away from where we are.
export class Store {
  constructor(model) {
    this.model = model;
    this.views = new Set();
    this.number = 0; // of the last message that was sent: its time, so that pages of one lab do not mix theirs up
    this.moved = 0; // … that changed where we are
    this.waiting = null; // … that has to be answered, until it is
    this.want = null; // where the learner wants to be, while the pictures for it are on their way
    this.note = "";
    this.playing = null;
    this.pane = null; // the one that is unfolded, {id, parts}
    this.receive = this.receive.bind(this);
    model.on("msg:custom", this.receive);
    this.restart(model.get("picture"));
  }

  close() {
    this.stop();
    clearTimeout(this.late);
    this.model.off("msg:custom", this.receive);
  }

  restart(whole) {
    this.pictures = new Map(); // key -> {marks: Map(id -> mark), …}, those seen last at the end
    this.strip = { version: -1, marks: new Map() };
    this.seen = 0;
    this.lab = whole.lab; // its name, its size
    this.recorded = this.model.get("recorded"); // a page that was saved has all steps in it
    this.guesses = new Map(); // in a recording: key -> which of its questions -> the mark that was pointed at
    this.take(whole);
    for (const message of this.recorded ?? []) this.take(message);
    if (this.recorded) this.seen = whole.position;
    this.position = whole.position;
    this.selected = whole.selected;
  }

  // ---- from the kernel

  receive(message) {
    if (this.waiting !== null && message.heard >= this.waiting) {
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
    } else if (!(message.heard < this.moved) || !this.current) {
      this.position = message.position;
      this.selected = message.selected;
      // Where we wanted to be there is nothing any more: say where we are.
      if (message.heard < this.moved) this.moved = this.send({ do: "at", position: this.position, selected: this.selected }) ?? this.moved;
      if (this.want !== null && message.run.over) this.want = Math.min(this.want, message.position);
      if (this.want === this.position) this.want = null;
    }
    this.draw();
    this.advance();
  }

  // Store a picture. False where it is a difference from one that is not here.
  take(message) {
    if (message.stale.includes("all")) {
      this.pictures.clear();
      this.seen = 0;
    }
    const base = message.base && this.pictures.get(key(...message.base));
    const strip = message.strip;
    if ((message.base && !base) || (strip.base !== null && strip.base !== this.strip.version)) return false;
    for (const position of message.stale) this.forget(position); // what happened after the last step now belongs to the next
    this.run = message.run;
    this.panes = message.panes;
    this.strip = { version: strip.version, size: strip.size, marks: patched(strip.base === null ? null : this.strip.marks, strip) };
    const { position, selected, next, verdict, question, say, asks } = message;
    const id = key(position, selected);
    this.pictures.delete(id);
    this.pictures.set(id, { marks: patched(base && base.marks, message), next, verdict, question, say, asks });
    this.seen = Math.max(this.seen, position);
    for (const old of this.pictures.keys()) {
      if (this.recorded || this.pictures.size <= KEPT) break;
      if (old !== key(this.position, this.selected)) this.pictures.delete(old);
    }
    return true;
  }

  forget(position) {
    for (const id of this.pictures.keys()) if (JSON.parse(id)[0] === position) this.pictures.delete(id);
  }

  // ---- from the learner

  get over() {
    return this.position === this.run.steps && this.run.over !== "";
  }

  go(position, selected = this.selected) {
    position = Math.max(0, this.run.over ? Math.min(position, this.run.steps) : position);
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

  // Each click is a step: those that come while the kernel works are added up.
  step(by) {
    this.go((this.want ?? this.position) + by);
  }

  advance() {
    if (this.waiting !== null || this.want === null) return;
    const position = Math.min(this.want, this.run.steps + 1);
    const selected = this.selected_wanted;
    if (this.pictures.has(key(position, selected))) return this.go(this.want, selected);
    this.ask({ do: "show", position, selected, have: [this.position, this.selected] });
    this.moved = this.waiting ?? this.moved;
  }

  select(request) {
    this.go(this.position, request);
  }

  // A mark that can be pointed at was clicked; the kernel knows what that means.
  point(id) {
    if (this.recorded) return this.guess(id);
    if (!this.current.question || this.position !== this.seen) return;
    this.ask({ do: "point", id });
  }

  // A mark that can be grabbed was dropped on another one.
  drop(what, onto) {
    if (this.position === this.run.steps) this.ask({ do: "drag", what, onto });
  }

  open(id) {
    this.pane = id === null ? null : { id, parts: [] };
    if (id === null) this.send({ do: "pane", id });
    else this.ask({ do: "pane", id });
    this.draw();
  }

  act(name, values) {
    this.note = "";
    this.ask({ do: "act", pane: this.pane.id, name, values });
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
    this.playing = null;
    this.draw();
  }

  // Send what has to be answered. A busy kernel is no error, but say so; until it answers, what was seen can be looked at.
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

  wait(note) {
    this.note = note;
    if (note === WAITING) this.late = setTimeout(() => this.wait(SILENT), SILENT_MS);
    this.draw();
  }

  // Returns the message's number, or null where there is no kernel.
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

  // ---- predicting in a recording, which holds the answers (viz/predicting.py)

  // What is asked here: nothing where the next step was seen already.
  get asks() {
    return this.position === this.seen && !this.over ? this.current.asks ?? [] : [];
  }

  guess(id) {
    const which = this.asks.findIndex(({ of }) => of.length === 0 || of.includes(id));
    if (which < 0) return;
    const here = key(this.position, this.selected);
    this.guesses.set(here, new Map(this.guesses.get(here)).set(which, id));
    this.draw();
  }

  name(id) {
    return this.model.get("predicting").names[id];
  }

  get question() {
    if (this.position !== this.seen || this.over) return "";
    if (this.asks.length === 0) return this.current.question;
    const guesses = [...(this.guesses.get(key(this.position, this.selected)) ?? [])];
    if (guesses.length) return guesses.map(([which, id]) => this.asks[which].said.replace("{guess}", this.name(id))).join(" ");
    return [...new Set(this.asks.map(({ ask }) => ask))].join(" ");
  }

  // How the last predictions ended.
  get verdict() {
    const before = key(this.position - 1, this.selected);
    const guesses = [...(this.guesses.get(before) ?? [])];
    if (guesses.length === 0) return this.current.verdict;
    const { asks } = this.pictures.get(before);
    const ended = guesses.map(([which, id]) => {
      const { answers, right, wrong } = asks[which];
      return (answers.includes(id) ? right : wrong).replace("{guess}", this.name(id));
    });
    const decided = [...this.guesses].flatMap(([at, of]) =>
      JSON.parse(at)[0] < this.seen ? [...of].map(([which, id]) => this.pictures.get(at).asks[which].answers.includes(id)) : [],
    );
    const score = this.model.get("predicting").score.replace("{right}", decided.filter(Boolean).length);
    return [...ended, score.replace("{decided}", decided.length)].join(" ");
  }

  // ---- what is drawn

  // The picture with all that depends on how far the run has got by now, and on what the learner pointed at.
  get shown() {
    const marks = new Map([...this.current.marks, ...this.strip.marks]);
    const step = marks.get("step");
    if (step) marks.set("step", { ...step, ...this.stepText() });
    for (const [which, id] of this.guesses.get(key(this.position, this.selected)) ?? []) {
      const [x, y, width, height] = marks.get(id).place;
      const place = [x - 3, y - 3, width + 6, height + 6];
      marks.set(`guess.${which}`, { id: `guess.${which}`, place, cls: "over guess", text: "", tip: "" });
    }
    return marks;
  }

  stepText() {
    const { position, run } = this;
    const past = run.live && position < run.steps;
    const more = past ? " · the past" : run.live && position > 0 && !run.over ? " so far" : "";
    return { text: `step ${position} of ${run.steps}${more}`, cls: `text s12 end ${past ? "bold" : "soft"}` };
  }

  get current() {
    return this.pictures.get(key(this.position, this.selected));
  }

  draw() {
    if (!this.current) return; // all that was seen is void, and the new picture is on its way
    for (const view of this.views) view.draw();
  }
}

