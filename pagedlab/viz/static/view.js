// A lab on the page: its picture (drawing.js), the controls under it, mouse and keys.

import { Drawing, SVG } from "./drawing.js";
import { make, part, say, set } from "./elements.js";
import { WAITING } from "./store.js";

export class View {
  /** @param {import("./store.js").Store} store @param {HTMLElement} el */
  constructor(store, el) {
    this.store = store;
    el.innerHTML = `
      <div class="pagedlab" tabindex="0" role="group" data-lm-suppress-shortcuts="true"
           aria-label="${store.lab.name}. Left and right arrow: step. Space: play. Home, End: first and last step.">
        <svg role="group"></svg>
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
    this.root = /** @type {HTMLElement} */ (el.firstElementChild);
    const find = (/** @type {string} */ selector) => /** @type {HTMLElement} */ (this.root.querySelector(selector));
    this.drawing = new Drawing(store, /** @type {SVGSVGElement} */ (this.root.querySelector("svg")));
    const button = (/** @type {string} */ what) => /** @type {HTMLButtonElement} */ (find(`[data-do=${what}]`));
    /** @type {Record<string, HTMLButtonElement>} */
    this.buttons = Object.fromEntries(["first", "back", "play", "last", "more", "step"].map((what) => [what, button(what)]));
    this.ask = find(".ask");
    this.tools = find(".tools");
    this.pane = find(".pane");
    this.spoken = find(".spoken");
    /** @type {import("./store.js").Pane | null} */
    this.unfoldedPane = null;
    /** @type {{ mark: Element, line: SVGElement, over: Element | null } | null} */
    this.held = null; // the mark that was taken hold of
    const { root } = this;
    root.addEventListener("focusin", () => this.drawing.circle());
    root.addEventListener("focusout", () => this.drawing.circle());
    root.addEventListener("click", (event) => this.click(/** @type {Element} */ (event.target)));
    root.addEventListener("keydown", (event) => this.keydown(event));
    root.addEventListener("pointerdown", (event) => this.grab(event));
    root.addEventListener("pointermove", (event) => this.pull(event));
    root.addEventListener("pointerup", (event) => this.letGo(event));
    root.addEventListener("submit", (event) => this.submit(event));
    this.drawing.hit.addEventListener("pointerdown", (event) => this.scrub(event));
    this.drawing.hit.addEventListener("pointermove", (event) => event.buttons && this.scrub(event));
    this.drawing.width = root.clientWidth;
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(root);
    this.draw();
  }

  close() {
    this.observer.disconnect();
  }

  // On a wide page the picture scales by itself.
  resize() {
    const { drawing, root } = this;
    const [before, wasNarrow] = [drawing.width, drawing.narrow];
    drawing.width = root.clientWidth;
    if (before !== drawing.width && (drawing.narrow || wasNarrow)) this.draw();
  }

  draw() {
    const { store, root } = this;
    root.classList.toggle("narrow", this.drawing.narrow);
    this.drawing.draw();
    this.words();
    this.unfolded();
    root.dataset.position = String(store.position);
    root.dataset.selected = store.selected ?? "";
    root.dataset.steps = String(store.run.steps);
    root.dataset.busy = String(store.waiting !== null || store.want !== null);
  }

  words() {
    const { store, buttons, root } = this;
    const { over, question } = store;
    say(buttons.step, over ? store.run.over : `${store.current.next} →`);
    buttons.step.disabled = buttons.play.disabled = over;
    buttons.first.disabled = buttons.back.disabled = store.position === 0;
    buttons.last.disabled = store.position === store.run.steps;
    say(buttons.play, store.playing ? "❚❚" : "▶");
    buttons.play.setAttribute("aria-label", store.playing ? "Pause" : "Play");
    say(this.ask, store.note || [store.verdict, question].filter(Boolean).join(" "));
    this.ask.classList.toggle("alarm", store.note !== "" && store.note !== WAITING);
    root.classList.toggle("asking", question !== "");
    root.classList.toggle("at-end", store.position === store.run.steps && "grab" in store.panes);
    say(this.spoken, store.current.say);
  }

  // ---- mouse and keys

  /** @param {Element} target @returns {void} */
  click(target) {
    const button = target.closest("button");
    const { pane, act, do: what } = button?.dataset ?? {};
    if (pane) return this.store.open(this.store.pane?.id === pane ? null : pane);
    if (act) return this.store.act(act, {});
    if (what) return this.act(what);
    const mark = button ? null : target.closest("[data-id]");
    const id = mark?.getAttribute("data-id");
    if (!mark || !id) return;
    if (mark.classList.contains("chip")) this.store.select(id.slice("chip.".length));
    if (mark.classList.contains("askable")) this.store.point(id);
  }

  /** @param {string} what */
  act(what) {
    const { store } = this;
    if (what === "more") {
      this.tools.hidden = !this.tools.hidden;
      if (this.tools.hidden && store.pane) store.open(null);
      return this.unfolded();
    }
    if (what !== "play") clearInterval(store.playing), (store.playing = undefined);
    if (what === "first") store.go(0);
    if (what === "back") store.step(-1);
    if (what === "step") store.step(1);
    if (what === "last") store.go(store.run.steps);
    if (what === "play") store.play();
  }

  /** @param {KeyboardEvent} event @returns {void} */
  keydown(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const target = /** @type {Element} */ (event.target);
    if (target instanceof HTMLInputElement || target instanceof HTMLSelectElement) {
      // The notebook around us takes Enter for itself.
      if (event.key === "Enter" && target.matches("input")) event.preventDefault(), target.form?.requestSubmit();
      return;
    }
    if (event.key === "Escape") this.drop();
    const onButton = target !== this.root && target.closest("button, [role=button]");
    if (onButton && (event.key === "Enter" || event.key === " ")) {
      if (target.closest("button")) return; // the browser clicks
      event.preventDefault();
      return this.click(target);
    }
    if (event.key === "ArrowUp" || event.key === "ArrowDown") {
      event.preventDefault();
      return this.walk(event.key === "ArrowDown" ? 1 : -1);
    }
    const what = KEYS.get(event.key);
    if (!what) return;
    event.preventDefault();
    if (event.repeat && this.store.waiting !== null) return; // a key held down does not run ahead of the engine
    if (!this.buttons[what].disabled) this.act(what);
  }

  /** Up and down move from one thing that can be pointed at to the next; Enter points. @param {number} by */
  walk(by) {
    /** @type {SVGElement[]} */
    const marks = [...this.drawing.layer("card").querySelectorAll(/** @type {"rect"} */ (".askable"))];
    if (marks.length === 0) return;
    marks.sort((a, b) => number(a) - number(b));
    const at = marks.findIndex((mark) => mark === document.activeElement);
    marks[at < 0 && by < 0 ? marks.length - 1 : (at + by + marks.length) % marks.length].focus();
  }

  // ---- what is folded away: buttons for it, and the one pane that is open

  unfolded() {
    const { store, tools, pane } = this;
    const panes = Object.entries(store.panes);
    const { more } = this.buttons;
    more.hidden = panes.length === 0;
    tools.hidden ||= panes.length === 0;
    set(more, { "aria-expanded": !tools.hidden });
    const wanted = JSON.stringify([panes, store.pane?.id]);
    if (tools.dataset.shown !== wanted) {
      tools.dataset.shown = wanted;
      const focus = focused(tools)?.dataset.pane;
      const button = (/** @type {[string, string]} */ [id, words]) =>
        make("button", { "data-pane": id, "aria-pressed": id === store.pane?.id }, [words]);
      tools.replaceChildren(...panes.map(button));
      if (focus) /** @type {HTMLElement | null} */ (tools.querySelector(`[data-pane="${focus}"]`))?.focus();
    }
    pane.hidden = tools.hidden || !store.pane;
    if (this.unfoldedPane === store.pane) return;
    this.unfoldedPane = store.pane;
    // What was typed stays where the field stays.
    const fields = () => /** @type {NodeListOf<HTMLInputElement | HTMLSelectElement>} */ (pane.querySelectorAll("input, select"));
    const typed = new Map([...fields()].map((e) => [e.name, e.value]));
    const focus = focused(pane)?.getAttribute("name");
    pane.replaceChildren(...(store.pane?.parts ?? []).map(part));
    for (const e of fields()) {
      const before = typed.get(e.name);
      if (before && (e instanceof HTMLInputElement || [...e.options].some((o) => o.value === before))) e.value = before;
      if (e.name === focus) e.focus();
    }
    pane.querySelector(".marked")?.scrollIntoView({ block: "nearest" });
  }

  /** @param {SubmitEvent} event */
  submit(event) {
    event.preventDefault();
    const form = /** @type {HTMLFormElement} */ (event.target);
    this.store.act(form.dataset.name ?? "", Object.fromEntries(new FormData(form)));
  }

  // ---- taking hold of a mark and dropping it on another

  /** @param {PointerEvent} event */
  grab(event) {
    const mark = /** @type {Element} */ (event.target).closest(".grab");
    if (!mark || !this.root.classList.contains("at-end")) return;
    mark.setPointerCapture(event.pointerId);
    const line = document.createElementNS(SVG, "path");
    line.setAttribute("class", `path pulled ${/\bc\d\b/.exec(mark.getAttribute("class") ?? "")?.[0] ?? ""}`);
    this.drawing.layer("top").append(line);
    this.held = { mark, line, over: null };
  }

  /** @param {PointerEvent} event */
  pull(event) {
    const { held } = this;
    if (!held) return;
    const onScreen = this.drawing.svg.getScreenCTM()?.inverse();
    const at = (/** @type {number} */ x, /** @type {number} */ y) => new DOMPoint(x, y).matrixTransform(onScreen);
    const box = held.mark.getBoundingClientRect();
    const from = at(box.right, box.top + box.height / 2);
    const to = at(event.clientX, event.clientY);
    held.line.setAttribute("d", `M${from.x} ${from.y}L${to.x} ${to.y}`);
    held.over?.classList.remove("target");
    held.over = this.under(event);
    held.over?.classList.add("target");
  }

  /** @param {PointerEvent} event */
  letGo(event) {
    const what = this.held?.mark.getAttribute("data-id");
    const onto = this.under(event)?.getAttribute("data-id");
    this.drop();
    if (what && onto) this.store.drop(what, onto);
  }

  drop() {
    this.held?.line.remove();
    this.held?.over?.classList.remove("target");
    this.held = null;
  }

  /** @param {PointerEvent} event */
  under(event) {
    const page = /** @type {Document | ShadowRoot} */ (this.root.getRootNode());
    return page.elementFromPoint(event.clientX, event.clientY)?.closest(".askable") ?? null;
  }

  /** @param {PointerEvent} event */
  scrub(event) {
    const { store, drawing } = this;
    if (event.type === "pointerdown") drawing.hit.setPointerCapture(event.pointerId);
    const box = drawing.hit.getBoundingClientRect();
    const columns = store.strip.size?.columns ?? 1;
    const position = Math.round(((event.clientX - box.left) / box.width) * (columns + 1) - 0.5);
    store.go(Math.min(position, store.run.steps));
  }
}

const KEYS = new Map([["ArrowLeft", "back"], ["ArrowRight", "step"], [" ", "play"], ["Home", "first"], ["End", "last"]]);

/** The element in it that has the focus. @param {Element} around @returns {HTMLElement | null} */
const focused = (around) => around.querySelector(":focus");

/** @param {SVGElement} element */
const number = (element) => Number(element.dataset.id?.split(".")[1]);
