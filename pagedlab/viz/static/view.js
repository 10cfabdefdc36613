// Draws the marks of a lab as SVG. Where anything lies and what it says is decided in Python (viz/widget.py) and, on a narrow
// screen, in narrow.js; here are only elements, keys and clicks.

import { make, part, say, set } from "./elements.js";
import { LEADING, NARROW, reflow } from "./narrow.js";
import { WAITING } from "./store.js";

const SVG = "http://www.w3.org/2000/svg";
const LAYERS = ["card", "cell", "over", "path", "text", "top"];
const MOVE_MS = 280;
const LEAST_MOVE = 4; // pixels
const MOST_MOVED = 40; // marks

export class View {
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
    this.svg = find("svg");
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
    this.looks = looks(this.layers.text);
    this.width = this.root.clientWidth; // in pixels; 0: not on the page yet
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(this.root);
    this.draw();
  }

  close() {
    this.observer.disconnect();
  }

  resize() {
    const before = this.width;
    this.width = this.root.clientWidth;
    if (before !== this.width && (this.narrow || this.root.classList.contains("narrow"))) this.draw();
  }

  get narrow() {
    return this.width > 0 && this.width < NARROW;
  }

  // The picture as Python has laid it out; on a narrow screen as it is set anew.
  laid() {
    const { lab, strip, shown } = this.store;
    if (!this.narrow) return { marks: shown, width: lab.size[0], height: lab.size[1], strip: strip.size };
    const areas = lab.areas.length ? lab.areas : [{ box: [0, 0, ...lab.size], kind: "flow", plot: null, heads: [] }];
    return { width: this.width, ...reflow(shown.values(), areas, this.width, strip.size, this.looks) };
  }

  draw() {
    const { store } = this;
    const picture = store.current;
    const { marks: wanted, width, height, strip } = this.laid();
    const resized = this.svg.viewBox.baseVal?.width !== width;
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.root.classList.toggle("narrow", this.narrow);
    for (const [id, { element }] of this.drawn) {
      if (wanted.has(id)) continue;
      element.remove();
      this.drawn.delete(id);
    }
    for (const [id, mark] of wanted) this.mark(id, mark);
    if (!resized) this.animate();
    this.moved.length = 0;
    this.now(strip);
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
    if (drawn && same(drawn.mark, mark)) return;
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
    element.textContent = layer === "text" && !mark.lines ? mark.text : "";
    if (layer === "text") element.style.fontSize = mark.size ? `${mark.size}px` : "";
    for (const [i, line] of (mark.lines ?? []).entries()) {
      const row = document.createElementNS(SVG, "tspan");
      set(row, { x, dy: i && `${LEADING}em` });
      row.textContent = line;
      element.append(row);
    }
    if (mark.tip) this.name(element, mark);
    this.drawn.set(id, { mark, element, layer });
    const [left, top] = drawn?.mark.place ?? mark.place;
    if (Math.hypot(left - x, top - y) > LEAST_MOVE) this.moved.push([element, left - x, top - y]);
  }

  // What moves is seen to move, where an eye can follow. At rest no mark has a transform: to the browser each one that has is a
  // part that it puts together on its own, and hundreds of those make every frame of the page slow.
  animate() {
    const { moved } = this;
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

  // The cursor on the strip of time, and a veil over what comes later.
  now(strip) {
    const { position, run } = this.store;
    this.cursor.style.display = this.hit.style.display = strip ? "" : "none";
    if (!strip) return;
    const { left, top, width, height, columns } = strip;
    const step = width / columns;
    this.cursor.style.transform = `translate(${left + step * position}px, ${top}px)`;
    const [veil, line, head] = this.cursor.children;
    set(veil, { y: -1, height: height + 2, width: Math.max(0, run.steps - position) * step });
    set(line, { y: -6, height: height + 8 });
    head.setAttribute("d", "M-5 -10h10l-5 6z");
    set(this.hit, { x: left - step / 2, y: top - 10, width: width + step, height: height + 10 });
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
    const asking = store.question;
    say(this.ask, store.note || [store.verdict, asking].filter(Boolean).join(" "));
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
    const at = (x, y) => new DOMPoint(x, y).matrixTransform(this.svg.getScreenCTM().inverse());
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

/** Is it the same mark, in the same place? */
function same(a, b) {
  if (a === b) return true;
  const list = (x, y) => x === y || (x?.length === y?.length && x.every((value, i) => value === y[i]));
  return a.cls === b.cls && a.text === b.text && a.tip === b.tip && a.size === b.size && list(a.place, b.place) && list(a.lines, b.lines);
}

/** How texts of a class are set, asked of the page once for each. */
function looks(layer) {
  const known = new Map();
  const context = document.createElement("canvas").getContext("2d");
  return (cls) => {
    if (!known.has(cls)) {
      const probe = document.createElementNS(SVG, "text");
      probe.setAttribute("class", cls);
      layer.append(probe);
      const { fontSize, fontWeight, fontFamily, textAnchor } = getComputedStyle(probe);
      probe.remove();
      const width = (text, size) => {
        context.font = `${fontWeight} ${size}px ${fontFamily}`;
        return context.measureText(text).width;
      };
      known.set(cls, { size: parseFloat(fontSize), anchor: textAnchor, width });
    }
    return known.get(cls);
  };
}

const number = (element) => Number(element.dataset.id.split(".")[1]);

const hatch = (id, i) => `
  <pattern id="${id}" class="c${i}" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
    <rect width="6" height="6" style="fill: var(--back)"></rect>
    <path d="M1 0V6" style="stroke: var(--hue); stroke-width: 2; opacity: .7"></path>
  </pattern>`;

