// For JupyterLab, which runs it when it starts: where the widget of a stored output is gone with its kernel, the output's
// picture is shown, and a sentence, in place of "model not found". Written by hand in the form in which JupyterLab loads
// extensions that were built (webpack's module federation: `init` gives the shared modules, `get` answers with ours).

const VIEW = "application/vnd.jupyter.widget-view+json";
const PICTURE = "image/svg+xml";
const STORED = "This is the stored picture; the kernel that made it is gone. Run the cell again to step through it.";

/** @typedef {{ data: Record<string, string | string[]> }} Output */
/** @typedef {{ node: HTMLElement, renderModel(model: Output): Promise<void> }} Renderer */
/** @typedef {{ createRenderer(mimeType: string): Renderer }} RenderMime */
/** @typedef {{ content: { rendermime: RenderMime } }} Panel a notebook's */
/** @typedef {{ forEach(call: (panel: Panel) => void): void, widgetAdded: { connect(call: (tracker: unknown, panel: Panel) => void): void } }} Tracker */

/** @type {Record<string, Record<string, { get(): Promise<() => any> }>>} */
let shared;

/** @param {string} name */
const module_ = async (name) => (await Object.values(shared[name])[0].get())();

/** What the widget renderer leaves behind where it finds no widget is a text, and no element. @param {HTMLElement} node @param {Output["data"]} data */
function showStored(node, data) {
  if (node.firstElementChild || !data[PICTURE]) return;
  const picture = document.createElement("img");
  picture.src = `data:${PICTURE};charset=utf-8,${encodeURIComponent([data[PICTURE]].flat().join(""))}`;
  picture.alt = [data["text/plain"] ?? ""].flat().join("");
  picture.style.cssText = "display: block; max-width: 100%; height: auto;";
  const line = document.createElement("p");
  line.textContent = STORED;
  node.replaceChildren(picture, line);
}

/** @param {RenderMime} rendermime */
function watch(rendermime) {
  const createRenderer = rendermime.createRenderer.bind(rendermime);
  rendermime.createRenderer = (mimeType) => {
    const renderer = createRenderer(mimeType);
    if (mimeType === VIEW) {
      const render = renderer.renderModel.bind(renderer);
      renderer.renderModel = async (model) => {
        await render(model);
        showStored(renderer.node, model.data);
      };
    }
    return renderer;
  };
}

/** @param {unknown} INotebookTracker */
const plugin = (INotebookTracker) => ({
  id: "pagedlab:stored-picture",
  description: "Shows the stored picture of a lab whose kernel is gone.",
  autoStart: true,
  requires: [INotebookTracker],
  activate: (/** @type {unknown} */ _, /** @type {Tracker} */ notebooks) => {
    notebooks.forEach((panel) => watch(panel.content.rendermime));
    notebooks.widgetAdded.connect((_tracker, panel) => watch(panel.content.rendermime));
  },
});

const jupyterlab = /** @type {{ _JUPYTERLAB?: Record<string, object> }} */ (/** @type {unknown} */ (window));

(jupyterlab._JUPYTERLAB ??= {}).pagedlab = {
  init: (/** @type {typeof shared} */ scope) => void (shared = scope),
  get: async () => {
    const { INotebookTracker } = await module_("@jupyterlab/notebook");
    return () => plugin(INotebookTracker);
  },
};
