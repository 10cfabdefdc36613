// Elements of the page, and those that stand in a pane under the picture.

// Only what is new: a text that is set again would be laid out again, and read out again.
export const say = (element, text) => element.textContent === text || (element.textContent = text);

// One part of a pane, see viz/panes.py.
export function part({ kind, ...p }) {
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

export function make(name, attributes, children) {
  const element = document.createElement(name);
  set(element, attributes);
  element.append(...children);
  return element;
}

export function set(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
}

