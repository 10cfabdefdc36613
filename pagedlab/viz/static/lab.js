// Draws the marks of any lab as SVG. Where anything lies and what it says is decided in Python (viz/widget.py); here are only
// elements, keys and clicks, and the pictures of the steps that were seen, so that going back to them needs no kernel.

const SVG = "http://www.w3.org/2000/svg";
const LAYERS = ["card", "cell", "over", "path", "text", "top"];
const PLAY_MS = 900;
const MOVE_MS = 280;
const LEAST_MOVE = 4; // pixels
const MOST_MOVED = 40; // marks
const LATE_MS = 700;
const KEPT = 200; // pictures at most; older ones are asked for again
const WAITING = "Waiting for the kernel …";
const SILENT_MS = 4_000;
const SILENT = "The kernel does not answer. It is busy; or it was restarted, and then run the cell again.";

const key = (position, selected) => JSON.stringify([position, selected]);

// One for each lab, shared by all its views: the pictures seen, and where we are among them.
//
// What is sent to the kernel is numbered, and every message from there says what was the last one it had "heard" when it was
// written. So an answer is known as one, and a picture from before our last move (another lab stepped the engine, or the kernel
// was busy while we went on) is kept, but does not take us away from where we are.
class Store {
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
    this.take(whole);
    for (const message of this.recorded ?? []) this.take(message);
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
    const { position, selected, next, verdict, question, say } = message;
    const id = key(position, selected);
    this.pictures.delete(id);
    this.pictures.set(id, { marks: patched(base && base.marks, message), next, verdict, question, say });
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

  get current() {
    return this.pictures.get(key(this.position, this.selected));
  }

  draw() {
    if (!this.current) return; // all that was seen is void, and the new picture is on its way
    for (const view of this.views) view.draw();
  }
}

// Marks that did not change stay the same objects, in every picture: that is how a view knows what to leave alone.
function patched(base, patch) {
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

class View {
  constructor(store, el) {
    this.store = store;
    this.drawn = new Map(); // id -> {mark, element, layer}
    this.moved = []; // [element, x, y]: where it was, seen from where it is
    // Not a counter: every lab loads its own copy of this module, and url(#id) finds the first one in the page, even one in
    // a hidden tab, which draws nothing.
    const id = `pagedlab-${Math.random().toString(36).slice(2)}`;
    el.innerHTML = `
      <div class="pagedlab" tabindex="0" role="group" data-lm-suppress-shortcuts="true"
           aria-label="${store.lab.name}. Left and right arrow: step. Space: play. Home, End: first and last step.">
        <svg viewBox="0 0 ${store.lab.size.join(" ")}" role="group">
          <defs>${[0, 1, 2, 3, 4, 5, 6, 7].map((i) => hatch(`${id}-${i}`, i)).join("")}</defs>
          ${LAYERS.map((name) => `<g data-layer="${name}"></g>`).join("")}
          <g class="cursor">
            <rect class="top veil"></rect><rect class="top playhead" x="-0.8" width="1.6"></rect><path class="path ink"></path>
          </g>
          <rect class="strip-hit"></rect>
          <g class="ring"><rect></rect><rect></rect></g>
        </svg>
        <div class="bar">
          <button data-do="first" aria-label="First step" title="First step (Home)">|◀</button>
          <button data-do="back" aria-label="Step back" title="Step back (←)">◀</button>
          <button data-do="play" aria-label="Play" title="Play (Space)">▶</button>
          <button data-do="last" aria-label="Last step" title="Last step (End)">▶|</button>
          <span class="ask"></span>
          <button data-do="more" aria-label="More" title="More" aria-expanded="false">More</button>
          <button class="go" data-do="step" title="→"></button>
        </div>
        <div class="tools" hidden></div>
        <div class="pane" hidden></div>
        <div class="spoken" aria-live="polite"></div>
      </div>`;
    this.root = el.firstElementChild;
    for (let i = 0; i < 8; i++) this.root.style.setProperty(`--hatch-${i}`, `url(#${id}-${i})`);
    const find = (selector) => this.root.querySelector(selector);
    this.layers = Object.fromEntries(LAYERS.map((name) => [name, find(`[data-layer="${name}"]`)]));
    this.cursor = find(".cursor");
    this.hit = find(".strip-hit");
    this.ring = find(".ring");
    this.root.addEventListener("focusin", () => this.circle());
    this.root.addEventListener("focusout", () => this.circle());
    this.buttons = Object.fromEntries([...this.root.querySelectorAll("button")].map((b) => [b.dataset.do, b]));
    this.root.addEventListener("click", (event) => this.click(event.target));
    this.root.addEventListener("keydown", (event) => this.keydown(event));
    this.ask = find(".ask");
    this.tools = find(".tools");
    this.pane = find(".pane");
    this.spoken = find(".spoken");
    this.root.addEventListener("pointerdown", (event) => this.grab(event));
    this.root.addEventListener("pointermove", (event) => this.held && this.pull(event));
    this.root.addEventListener("pointerup", (event) => this.held && this.letGo(event));
    this.root.addEventListener("submit", (event) => this.submit(event));
    this.hit.addEventListener("pointerdown", (event) => this.scrub(event));
    this.hit.addEventListener("pointermove", (event) => event.buttons && this.scrub(event));
    this.draw();
  }

  draw() {
    const { store } = this;
    const picture = store.current;
    const wanted = new Map([...picture.marks, ...store.strip.marks]);
    for (const [id, { element }] of this.drawn) {
      if (wanted.has(id)) continue;
      element.remove();
      this.drawn.delete(id);
    }
    for (const [id, mark] of wanted) this.mark(id, mark);
    this.animate();
    this.now();
    this.circle();
    this.words(picture);
    this.unfolded();
    this.root.dataset.position = store.position;
    this.root.dataset.selected = store.selected ?? "";
    this.root.dataset.steps = store.run.steps;
    this.root.dataset.busy = store.waiting !== null || store.want !== null;
  }

  mark(id, mark) {
    const drawn = this.drawn.get(id);
    if (drawn && drawn.mark === mark) return;
    const layer = mark.cls.split(" ", 1)[0];
    let element = drawn?.element;
    if (!element || drawn.layer !== layer) {
      element?.remove();
      element = document.createElementNS(SVG, layer === "path" || layer === "text" ? layer : "rect");
      element.dataset.id = id;
      this.layers[layer].append(element);
    }
    const [x, y, width, height] = mark.place;
    element.setAttribute("class", mark.cls);
    set(element, layer === "path" ? { d: mark.text } : layer === "text" ? { x, y } : { x, y, width, height });
    element.textContent = layer === "text" ? mark.text : "";
    if (mark.tip) this.name(element, mark);
    this.drawn.set(id, { mark, element, layer });
    const [left, top] = drawn?.mark.place ?? mark.place;
    if (Math.hypot(left - x, top - y) > LEAST_MOVE) this.moved.push([element, left - x, top - y]);
  }

  // What moves is seen to move, where an eye can follow. At rest no mark has a transform: to the browser each one that has is a
  // part that it puts together on its own, and hundreds of those make every frame of the page slow.
  animate() {
    const moved = this.moved.splice(0);
    if (moved.length > MOST_MOVED || matchMedia("(prefers-reduced-motion: reduce)").matches) return;
    for (const [element, x, y] of moved) {
      element.animate({ transform: [`translate(${x}px, ${y}px)`, "none"] }, { duration: MOVE_MS, easing: "ease" });
    }
  }

  // A tip is a tooltip; on what can be clicked it is the name for a screen reader as well.
  name(element, mark) {
    const chip = mark.cls.includes("chip");
    if (chip || mark.cls.includes("askable")) set(element, { role: "button", tabindex: chip ? 0 : -1, "aria-label": mark.tip });
    if (chip) element.setAttribute("aria-pressed", mark.cls.includes("chosen"));
    const title = document.createElementNS(SVG, "title");
    title.textContent = mark.tip;
    element.append(title);
  }

  // The ring around the mark that has the focus: over all other marks, and in two colours, so that it is seen on any hue.
  circle() {
    const mark = this.drawn.get(this.root.querySelector("svg [data-id]:focus-visible")?.dataset.id)?.mark;
    this.ring.style.display = mark ? "" : "none";
    if (!mark) return;
    const [x, y, width, height] = mark.place;
    for (const line of this.ring.children) set(line, { x: x - 3, y: y - 3, width: width + 6, height: height + 6 });
  }

  // What depends on how far the run has got by now.
  now() {
    const { position, run, strip } = this.store;
    this.cursor.style.display = this.hit.style.display = strip.size ? "" : "none";
    this.stepText(position, run);
    if (!strip.size) return;
    const { left, top, width, height, columns } = strip.size;
    const step = width / columns;
    this.cursor.style.transform = `translate(${left + step * position}px, ${top}px)`;
    const [veil, line, head] = this.cursor.children;
    set(veil, { y: -1, height: height + 2, width: Math.max(0, run.steps - position) * step });
    set(line, { y: -6, height: height + 8 });
    head.setAttribute("d", "M-5 -10h10l-5 6z");
    set(this.hit, { x: left - step / 2, y: top - 10, width: width + step, height: height + 10 });
  }

  // The mark "step", where a lab has one.
  stepText(position, run) {
    const past = run.live && position < run.steps;
    const more = past ? " · the past" : run.live && position > 0 && !run.over ? " so far" : "";
    const label = this.drawn.get("step")?.element;
    if (label) {
      label.textContent = `step ${position} of ${run.steps}${more}`;
      label.setAttribute("class", `text s12 end ${past ? "bold" : "soft"}`);
    }
  }

  words(picture) {
    const { store, buttons } = this;
    const { over } = store;
    say(buttons.step, over ? store.run.over : `${picture.next} →`);
    buttons.step.disabled = buttons.play.disabled = over;
    buttons.first.disabled = buttons.back.disabled = store.position === 0;
    buttons.last.disabled = store.position === store.run.steps;
    say(buttons.play, store.playing ? "❚❚" : "▶");
    buttons.play.setAttribute("aria-label", store.playing ? "Pause" : "Play");
    const asking = store.position === store.seen && !over ? picture.question : "";
    say(this.ask, store.note || [picture.verdict, asking].filter(Boolean).join(" "));
    this.ask.classList.toggle("alarm", store.note !== "" && store.note !== WAITING);
    this.root.classList.toggle("asking", asking !== "");
    this.root.classList.toggle("at-end", store.position === store.run.steps && "grab" in store.panes);
    say(this.spoken, picture.say);
  }

  // ---- mouse and keys

  click(target) {
    const button = target.closest("button");
    if (button?.dataset.pane) return this.store.open(this.store.pane?.id === button.dataset.pane ? null : button.dataset.pane);
    if (button?.dataset.act) return this.store.act(button.dataset.act, {});
    if (button) return button.dataset.do && this.act(button.dataset.do);
    const mark = target.closest("[data-id]");
    if (!mark) return;
    const id = mark.dataset.id;
    if (mark.classList.contains("chip")) this.store.select(id.slice("chip.".length));
    if (mark.classList.contains("askable")) this.store.point(id);
  }

  act(what) {
    const { store } = this;
    if (what === "more") {
      this.tools.hidden = !this.tools.hidden;
      if (this.tools.hidden && store.pane) store.open(null);
      return this.unfolded();
    }
    if (what !== "play") clearInterval(store.playing), (store.playing = null);
    if (what === "first") store.go(0);
    if (what === "back") store.step(-1);
    if (what === "step") store.step(1);
    if (what === "last") store.go(store.run.steps);
    if (what === "play") store.play();
  }

  keydown(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.matches("input, select")) {
      // The notebook around us takes Enter for itself.
      if (event.key === "Enter" && event.target.matches("input")) event.preventDefault(), event.target.form.requestSubmit();
      return;
    }
    if (event.key === "Escape") this.drop();
    const onButton = event.target !== this.root && event.target.closest("button, [role=button]");
    if (onButton && (event.key === "Enter" || event.key === " ")) {
      if (event.target.closest("button")) return; // the browser clicks
      event.preventDefault();
      return this.click(event.target);
    }
    if (event.key === "ArrowUp" || event.key === "ArrowDown") {
      event.preventDefault();
      return this.walk(event.key === "ArrowDown" ? 1 : -1);
    }
    const what = { ArrowLeft: "back", ArrowRight: "step", " ": "play", Home: "first", End: "last" }[event.key];
    if (!what) return;
    event.preventDefault();
    if (event.repeat && this.store.waiting !== null) return; // a key held down does not run ahead of the engine
    if (!this.buttons[what].disabled) this.act(what);
  }

  // Up and down move from one thing that can be pointed at to the next; Enter points.
  walk(by) {
    const marks = [...this.layers.card.querySelectorAll(".askable")].sort((a, b) => number(a) - number(b));
    if (marks.length === 0) return;
    const at = marks.indexOf(document.activeElement);
    marks[at < 0 && by < 0 ? marks.length - 1 : (at + by + marks.length) % marks.length].focus();
  }

  // ---- what is folded away: buttons for it, and the one pane that is open

  unfolded() {
    const { store, tools, pane } = this;
    const names = Object.entries(store.panes);
    const more = this.buttons.more;
    more.hidden = names.length === 0;
    tools.hidden ||= names.length === 0;
    more.setAttribute("aria-expanded", !tools.hidden);
    const wanted = JSON.stringify([names, store.pane?.id]);
    if (tools.dataset.shown !== wanted) {
      tools.dataset.shown = wanted;
      const focus = tools.querySelector(":focus")?.dataset.pane;
      tools.replaceChildren(
        ...names.map(([id, words]) =>
          make("button", { "data-pane": id, "aria-pressed": id === store.pane?.id }, [words]),
        ),
      );
      if (focus) tools.querySelector(`[data-pane="${focus}"]`)?.focus();
    }
    pane.hidden = tools.hidden || !store.pane;
    if (this.shown === store.pane) return;
    this.shown = store.pane;
    // What was typed stays where the field stays.
    const typed = new Map([...pane.querySelectorAll("input, select")].map((e) => [e.name, e.value]));
    const focus = pane.querySelector(":focus")?.name;
    pane.replaceChildren(...(store.pane?.parts ?? []).map(part));
    for (const e of pane.querySelectorAll("input, select")) {
      const before = typed.get(e.name);
      if (before && (e.tagName === "INPUT" || [...e.options].some((o) => o.value === before))) e.value = before;
      if (e.name === focus) e.focus();
    }
    pane.querySelector(".marked")?.scrollIntoView({ block: "nearest" });
  }

  submit(event) {
    event.preventDefault();
    const values = Object.fromEntries(new FormData(event.target));
    this.store.act(event.target.dataset.name, values);
  }

  // ---- taking hold of a mark and dropping it on another

  grab(event) {
    const mark = event.target.closest(".grab");
    if (!mark || !this.root.classList.contains("at-end")) return;
    this.held = mark;
    mark.setPointerCapture(event.pointerId);
    this.line = document.createElementNS(SVG, "path");
    this.line.setAttribute("class", `path pulled ${/\bc\d\b/.exec(mark.getAttribute("class"))?.[0] ?? ""}`);
    this.layers.top.append(this.line);
  }

  pull(event) {
    const svg = this.root.querySelector("svg");
    const at = (x, y) => new DOMPoint(x, y).matrixTransform(svg.getScreenCTM().inverse());
    const box = this.held.getBoundingClientRect();
    const from = at(box.right, box.top + box.height / 2);
    const to = at(event.clientX, event.clientY);
    this.line.setAttribute("d", `M${from.x} ${from.y}L${to.x} ${to.y}`);
    this.over?.classList.remove("target");
    this.over = this.under(event);
    this.over?.classList.add("target");
  }

  letGo(event) {
    const what = this.held.dataset.id;
    const onto = this.under(event)?.dataset.id;
    this.drop();
    if (onto) this.store.drop(what, onto);
  }

  drop() {
    this.line?.remove();
    this.over?.classList.remove("target");
    this.held = this.over = this.line = null;
  }

  under(event) {
    return this.root.getRootNode().elementFromPoint(event.clientX, event.clientY)?.closest(".askable");
  }

  scrub(event) {
    if (event.type === "pointerdown") this.hit.setPointerCapture(event.pointerId);
    const box = this.hit.getBoundingClientRect();
    const { columns } = this.store.strip.size;
    const position = Math.round(((event.clientX - box.left) / box.width) * (columns + 1) - 0.5);
    this.store.go(Math.min(position, this.store.run.steps));
  }
}

// Only what is new: a text that is set again would be laid out again, and read out again.
const say = (element, text) => element.textContent === text || (element.textContent = text);

const number = (element) => Number(element.dataset.id.split(".")[1]);

const hatch = (id, i) => `
  <pattern id="${id}" class="c${i}" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
    <rect width="6" height="6" style="fill: var(--back)"></rect>
    <path d="M1 0V6" style="stroke: var(--hue); stroke-width: 2; opacity: .7"></path>
  </pattern>`;

// One part of a pane, see viz/panes.py.
function part({ kind, ...p }) {
  if (kind === "text") return make("p", { class: p.alarm ? "alarm" : "" }, [p.text]);
  if (kind === "buttons") {
    const one = ([name, words, chosen]) => make("button", { "data-act": name, "aria-pressed": chosen }, [words]);
    return make("div", { class: "parts" }, p.buttons.map(one));
  }
  if (kind === "table") {
    const cells = (row, i) => make("tr", {}, row.map((cell) => make(i ? "td" : "th", {}, [cell])));
    return make("div", { class: "scroll" }, [make("table", {}, p.rows.map(cells))]);
  }
  if (kind === "code") {
    const line = (text, i) => {
      const number = p.first + i;
      return make("span", { class: p.marked.includes(number) ? "marked" : "" }, [`${String(number).padStart(4)}  ${text}\n`]);
    };
    return make("div", {}, [make("p", { class: "soft" }, [p.title]), make("pre", { tabindex: 0 }, p.lines.map(line))]);
  }
  const input = (f) => {
    const options = f.options?.map((text) => make("option", text === f.value ? { selected: "" } : {}, [text]));
    const size = f.wide ? 36 : 8;
    const field = f.options
      ? make("select", { name: f.name }, options)
      : make("input", { name: f.name, value: f.value, size, autocomplete: "off" }, []);
    return make("label", {}, [`${f.label} `, field]);
  };
  return make("form", { "data-name": p.name, class: "parts" }, [...p.fields.map(input), make("button", {}, [p.submit])]);
}

function make(name, attributes, children) {
  const element = document.createElement(name);
  set(element, attributes);
  element.append(...children);
  return element;
}

function set(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
}

export default () => {
  let store;
  return {
    initialize({ model }) {
      store = new Store(model);
      return () => store.close();
    },
    render({ el }) {
      const view = new View(store, el);
      store.views.add(view);
      return () => store.views.delete(view);
    },
  };
};
