// The marks of a lab as SVG elements. Where anything lies and what it says is decided in Python (viz/widget.py) and, on a narrow
// screen, in narrow.js.

import { set } from "./elements.js";
import { LEADING } from "./flow.js";
import { known } from "./marks.js";
import { NARROW, reflow } from "./narrow.js";

/** @typedef {import("./marks.js").Mark} Mark */
/** @typedef {import("./items.js").Look} Look */
/** @typedef {import("./narrow.js").Strip} Strip */

export const SVG = "http://www.w3.org/2000/svg";
const LAYERS = ["card", "cell", "over", "path", "text", "top"];
const LEAST_WIDTH = 240; // pixels; a page that is being laid out may have less for a moment
const MOVE_MS = 280;
const LEAST_MOVE = 4; // pixels
const MOST_MOVED = 40; // marks

export class Drawing {
  /** @param {import("./store.js").Store} store @param {SVGSVGElement} svg empty, and already where it stays */
  constructor(store, svg) {
    this.store = store;
    this.svg = svg;
    /** @type {Map<string, { mark: Mark, element: SVGElement, layer: string }>} */
    this.drawn = new Map();
    /** @type {[element: SVGElement, x: number, y: number][]} */
    this.moved = []; // where it was, seen from where it is
    this.width = 0; // of the lab in pixels; 0: not on the page yet
    // Not a counter: every lab loads its own copy of this module, and url(#id) finds the first one in the page, even one in
    // a hidden tab, which draws nothing.
    const id = `pagedlab-${Math.random().toString(36).slice(2)}`;
    svg.innerHTML = `
      <defs>${[0, 1, 2, 3, 4, 5, 6, 7].map((i) => hatch(`${id}-${i}`, i)).join("")}</defs>
      ${LAYERS.map((name) => `<g data-layer="${name}"></g>`).join("")}
      <g class="cursor">
        <rect class="top veil"></rect><rect class="top playhead" x="-0.8" width="1.6"></rect><path class="path ink"></path>
      </g>
      <rect class="strip-hit"></rect>
      <g class="ring"><rect></rect><rect></rect></g>`;
    for (let i = 0; i < 8; i++) svg.style.setProperty(`--hatch-${i}`, `url(#${id}-${i})`);
    this.layers = new Map(LAYERS.map((name) => [name, this.find(`[data-layer="${name}"]`)]));
    this.cursor = this.find(".cursor");
    this.hit = this.find(".strip-hit");
    this.ring = this.find(".ring");
    this.looks = looks(this.layer("text"));
  }

  /** @param {string} selector @returns {SVGElement} */
  find(selector) {
    return /** @type {SVGElement} */ (this.svg.querySelector(selector));
  }

  /** @param {string} name */
  layer(name) {
    return known(this.layers, name);
  }

  get narrow() {
    return this.width > 0 && this.width < NARROW;
  }

  // The picture as Python has laid it out; on a narrow screen as it is set anew.
  laid() {
    const { lab, strip, shown } = this.store;
    if (!this.narrow) return { marks: shown, width: lab.size[0], height: lab.size[1], strip: strip.size };
    const width = Math.max(this.width, LEAST_WIDTH);
    const areas = lab.areas.length ? lab.areas : [{ box: [0, 0, ...lab.size], kind: "flow", plot: null, heads: [] }];
    return { width, ...reflow(shown.values(), areas, width, strip.size, this.looks) };
  }

  draw() {
    const { marks, width, height, strip } = this.laid();
    const resized = this.svg.viewBox.baseVal?.width !== width;
    set(this.svg, { viewBox: `0 0 ${width} ${height}` });
    for (const [id, { element }] of this.drawn) {
      if (marks.has(id)) continue;
      element.remove();
      this.drawn.delete(id);
    }
    for (const [id, mark] of marks) this.mark(id, mark);
    const moved = this.moved.splice(0);
    if (!resized) animate(moved);
    this.now(strip);
    this.circle();
  }

  /** @param {string} id @param {Mark} mark */
  mark(id, mark) {
    const drawn = this.drawn.get(id);
    if (drawn && same(drawn.mark, mark)) return;
    const layer = mark.cls.split(" ", 1)[0];
    const isOther = drawn?.layer !== layer;
    if (isOther) drawn?.element.remove();
    const element = drawn && !isOther ? drawn.element : this.add(id, layer);
    const [x, y, width, height] = mark.place;
    set(element, { class: mark.cls, ...(layer === "path" ? { d: mark.text } : layer === "text" ? { x, y } : { x, y, width, height }) });
    if (!drawn || isOther || !saysSame(drawn.mark, mark)) {
      element.textContent = "";
      if (layer === "text") write(element, mark);
      if (mark.tip) entitle(element, mark);
    }
    this.drawn.set(id, { mark, element, layer });
    const [left, top] = drawn?.mark.place ?? mark.place;
    if (Math.hypot(left - x, top - y) > LEAST_MOVE) this.moved.push([element, left - x, top - y]);
  }

  /** @param {string} id @param {string} layer */
  add(id, layer) {
    const element = document.createElementNS(SVG, layer === "path" || layer === "text" ? layer : "rect");
    element.dataset.id = id;
    this.layer(layer).append(element);
    return element;
  }

  // The ring around the mark that has the focus: over all other marks, and in two colours, so that it is seen on any hue.
  circle() {
    const id = this.svg.querySelector("[data-id]:focus-visible")?.getAttribute("data-id");
    const mark = this.drawn.get(id ?? "")?.mark;
    this.ring.style.display = mark ? "" : "none";
    if (!mark) return;
    const [x, y, width, height] = mark.place;
    for (const line of this.ring.children) set(line, { x: x - 3, y: y - 3, width: width + 6, height: height + 6 });
  }

  /** The cursor on the strip of time, and a veil over what comes later. @param {Strip | null} strip */
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
    set(head, { d: "M-5 -10h10l-5 6z" });
    set(this.hit, { x: left - step / 2, y: top - 10, width: width + step, height: height + 10 });
  }
}

/** @param {SVGElement} element @param {Mark} mark */
function write(element, { place: [x], text, size, lines: broken }) {
  element.style.fontSize = size ? `${size}px` : "";
  if (!broken) element.textContent = text;
  for (const [i, line] of (broken ?? []).entries()) {
    const row = document.createElementNS(SVG, "tspan");
    set(row, { x, dy: i ? `${LEADING}em` : 0 });
    row.textContent = line;
    element.append(row);
  }
}

/** A tip is a tooltip; on what can be clicked it is the name for a screen reader as well. @param {SVGElement} element @param {Mark} mark */
function entitle(element, mark) {
  const chip = mark.cls.includes("chip");
  if (chip || mark.cls.includes("askable")) set(element, { role: "button", tabindex: chip ? 0 : -1, "aria-label": mark.tip });
  if (chip) set(element, { "aria-pressed": mark.cls.includes("chosen") });
  const title = document.createElementNS(SVG, "title");
  title.textContent = mark.tip;
  element.append(title);
}

/**
 * What moves is seen to move, where an eye can follow. At rest no mark has a transform: to the browser each one that has is a
 * part that it puts together on its own, and hundreds of those make every frame of the page slow.
 * @param {[element: SVGElement, x: number, y: number][]} moved
 */
function animate(moved) {
  if (moved.length > MOST_MOVED || matchMedia("(prefers-reduced-motion: reduce)").matches) return;
  for (const [element, x, y] of moved) {
    element.animate({ transform: [`translate(${x}px, ${y}px)`, "none"] }, { duration: MOVE_MS, easing: "ease" });
  }
}

/** Is it the same mark, in the same place? @param {Mark} a @param {Mark} b */
function same(a, b) {
  const all = (/** @type {Mark} */ m) => [m.cls, m.text, m.tip, m.size, ...m.place, ...(m.lines ?? [])];
  return a === b || (a.place.length === b.place.length && String(all(a)) === String(all(b)));
}

/** Does it say the same, to an eye, a pointer and a screen reader? @param {Mark} a @param {Mark} b */
function saysSame(a, b) {
  return a.text === b.text && a.tip === b.tip && a.size === b.size && !a.lines && !b.lines && (!b.tip || a.cls === b.cls);
}

/** How texts of a class are set, asked of the page once for each. @param {SVGElement} layer @returns {(cls: string) => Look} */
function looks(layer) {
  /** @type {Map<string, Look>} */
  const found = new Map();
  const context = /** @type {CanvasRenderingContext2D} */ (document.createElement("canvas").getContext("2d"));
  return (cls) => {
    const before = found.get(cls);
    if (before) return before;
    const probe = document.createElementNS(SVG, "text");
    probe.setAttribute("class", cls);
    layer.append(probe);
    const { fontSize, fontWeight, fontFamily, textAnchor } = getComputedStyle(probe);
    probe.remove();
    const width = (/** @type {string} */ text, /** @type {number} */ size) => {
      context.font = `${fontWeight} ${size}px ${fontFamily}`;
      return context.measureText(text).width;
    };
    const look = { size: parseFloat(fontSize), anchor: textAnchor, width };
    found.set(cls, look);
    return look;
  };
}

/** @param {string} id @param {number} i */
const hatch = (id, i) => `
  <pattern id="${id}" class="c${i}" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
    <rect width="6" height="6" style="fill: var(--back)"></rect>
    <path d="M1 0V6" style="stroke: var(--hue); stroke-width: 2; opacity: .7"></path>
  </pattern>`;
