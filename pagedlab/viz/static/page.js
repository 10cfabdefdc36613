// Labs on a page without a kernel: what anywidget gives the front end in a notebook, and the page's own keys.

import { offer } from "./again.js";
import factory from "./lab.js";

for (const element of document.querySelectorAll("script.pictures")) {
  const data = JSON.parse(element.textContent ?? "");
  const model = {
    get: (/** @type {string} */ name) => data[name],
    on() {},
    off() {},
    send() {
      throw new Error("no kernel");
    },
  };
  const lab = factory();
  const el = /** @type {HTMLElement} */ (element.previousElementSibling);
  lab.initialize({ model });
  lab.render({ model, el });
  if (data.again) offer(/** @type {Element} */ (el.querySelector(".pagedlab")), data.again);
}

/** @type {Element | null} */
let touched = null;
for (const kind of ["pointerdown", "focusin"]) {
  document.addEventListener(kind, ({ target }) => (touched = /** @type {Element} */ (target).closest(".pagedlab") ?? touched));
}

// The arrow keys of a page step its lab, without a click first: the one last touched if it is in view, else the one of which
// most is in view. Whatever else takes keys keeps them.
document.addEventListener("keydown", (event) => {
  const { key } = event;
  const target = /** @type {Element} */ (event.target);
  const modified = event.ctrlKey || event.metaKey || event.altKey || event.shiftKey;
  if (event.defaultPrevented || modified || (key !== "ArrowLeft" && key !== "ArrowRight")) return;
  if (target.closest(".pagedlab, input, select, textarea, pre, [contenteditable]")) return;
  const lab = labInView();
  if (!lab) return;
  event.preventDefault();
  lab.dispatchEvent(new KeyboardEvent("keydown", { key, repeat: event.repeat }));
});

function labInView() {
  const seen = (/** @type {Element} */ lab) => {
    const { top, bottom } = lab.getBoundingClientRect();
    return Math.min(bottom, innerHeight) - Math.max(top, 0);
  };
  if (touched && seen(touched) > 0) return touched;
  const labs = [...document.querySelectorAll(".pagedlab")].filter((lab) => seen(lab) > 0);
  return labs.sort((a, b) => seen(b) - seen(a))[0];
}
