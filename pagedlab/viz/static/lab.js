// What anywidget takes: a lab's store and its views, see store.js and view.js.

import { Store } from "./store.js";
import { View } from "./view.js";

export default () => {
  /** @type {Store} */
  let store;
  return {
    /** @param {{ model: import("./store.js").Model }} widget */
    initialize({ model }) {
      store = new Store(model);
      return () => store.close();
    },
    /** @param {{ model: import("./store.js").Model, el: HTMLElement }} widget */
    render({ el }) {
      const view = new View(store, el);
      store.views.add(view);
      return () => {
        view.close();
        store.views.delete(view);
      };
    },
  };
};
