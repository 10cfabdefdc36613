// Elements of the page, and those that stand in a pane under the picture.

/** Only what is new: a text that is set again would be laid out again, and read out again. @param {Element} element @param {string} text */
export const say = (element, text) => element.textContent === text || (element.textContent = text);

/** @typedef {{ name: string, label: string, value: string, options: string[] | null, wide: boolean }} Field */
/**
 * @typedef {{ kind: "text", text: string, alarm: boolean }
 *   | { kind: "buttons", buttons: [name: string, words: string, chosen: boolean][] }
 *   | { kind: "table", rows: string[][] }
 *   | { kind: "code", title: string, first: number, lines: string[], marked: number[] }
 *   | { kind: "form", name: string, submit: string, fields: Field[] }} Part see viz/panes.py
 */

/** One part of a pane. @param {Part} p */
export function part(p) {
  if (p.kind === "text") return make("p", { class: p.alarm ? "alarm" : "" }, [p.text]);
  if (p.kind === "buttons") {
    return make("div", { class: "parts" }, p.buttons.map(([name, words, chosen]) => make("button", { "data-act": name, "aria-pressed": chosen }, [words])));
  }
  if (p.kind === "table") {
    const row = (/** @type {string[]} */ cells, /** @type {number} */ i) => make("tr", {}, cells.map((cell) => make(i ? "td" : "th", {}, [cell])));
    return make("div", { class: "scroll" }, [make("table", {}, p.rows.map(row))]);
  }
  if (p.kind === "code") {
    const line = (/** @type {string} */ text, /** @type {number} */ i) => {
      const number = p.first + i;
      return make("span", { class: p.marked.includes(number) ? "marked" : "" }, [`${String(number).padStart(4)}  ${text}\n`]);
    };
    return make("div", {}, [make("p", { class: "soft" }, [p.title]), make("pre", { tabindex: 0 }, p.lines.map(line))]);
  }
  return make("form", { "data-name": p.name, class: "parts" }, [...p.fields.map(input), make("button", {}, [p.submit])]);
}

/** @param {Field} field */
function input({ name, label, value, options, wide }) {
  const choices = options?.map((text) => make("option", text === value ? { selected: "" } : {}, [text]));
  const element = choices
    ? make("select", { name }, choices)
    : make("input", { name, value, size: wide ? 36 : 8, autocomplete: "off" }, []);
  return make("label", {}, [`${label} `, element]);
}

/** @param {string} name @param {Attributes} attributes @param {(string | Node)[]} children */
export function make(name, attributes, children) {
  const element = document.createElement(name);
  set(element, attributes);
  element.append(...children);
  return element;
}

/** @typedef {Record<string, string | number | boolean>} Attributes */

/** Only what is new: an attribute that is set again is laid out again. @param {Element} element @param {Attributes} attributes */
export function set(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (element.getAttribute(name) !== String(value)) element.setAttribute(name, String(value));
  }
}
