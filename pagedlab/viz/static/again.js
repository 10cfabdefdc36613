// The recorded query once more, in the browser of who reads the page: the kernel's WGSL, with the recorded K, V and block
// table, through WebGPU (attention/again.py). Where there is none, nothing is offered.

import { make, say } from "./elements.js";

const { GPUBufferUsage: USAGE, GPUMapMode: MODE } = /** @type {any} */ (globalThis); // TypeScript knows the types only

/**
 * @typedef {{ kernel: string, wgsl: string, heads: number, query: string, used: number[], key: string, value: string,
 *   table: number[], context: number, read: number[][], output: string, rounding: number, where: string }} Recorded
 *   numbers are float32 in base64; of the pool it has the blocks ``used``; ``read`` are the blocks that the kernel went
 *   through for each KV head, and ``where`` is what ran it then
 * @typedef {{ adapter: string, read: number[][], output: Float32Array }} Found ``read`` of each query head
 */

/** A button under the lab, if this browser has WebGPU. @param {Element} lab @param {Recorded} recorded */
export async function offer(lab, recorded) {
  const adapter = await navigator.gpu?.requestAdapter().catch(() => null);
  if (!adapter) return;
  const button = make("button", {}, [isSoftware(adapter) ? "Run it in this browser" : "Run it on this machine's GPU"]);
  const result = make("p", { "aria-live": "polite" }, [
    `The same query, K, V and block table, read by the kernel in WGSL, on ${nameOf(adapter)}.`,
  ]);
  button.addEventListener("click", async () => {
    button.setAttribute("disabled", "");
    say(result, "The kernel runs …");
    const { words, good } = await run(recorded).then((found) => compared(recorded, found), refused);
    say(result, words);
    result.classList.toggle("alarm", !good);
    button.removeAttribute("disabled");
  });
  lab.append(make("div", { class: "again" }, [button, result]));
}

/** @param {GPUAdapter} adapter */
function isSoftware({ info }) {
  return info.isFallbackAdapter || /swiftshader|llvmpipe|basic render/i.test(`${info.architecture} ${info.description}`);
}

/** As the browser tells it. @param {GPUAdapter} adapter */
function nameOf(adapter) {
  const { vendor, architecture, description } = adapter.info;
  const name = [...new Set([vendor, architecture, description])].filter(Boolean).join(" ") || "an adapter without a name";
  return isSoftware(adapter) ? `${name} (software, which the CPU runs)` : name;
}

/** @param {unknown} error */
const refused = (error) => ({ words: `It could not run here: ${error instanceof Error ? error.message : error}`, good: false });

/** @param {Recorded} recorded @returns {Promise<Found>} */
async function run(recorded) {
  const adapter = await navigator.gpu.requestAdapter();
  if (!adapter) throw new Error("the browser gives no adapter any more. Loading the page again may help.");
  const device = await adapter.requestDevice();
  const lost = device.lost.then(() => {
    throw new Error("the browser has lost the device. Try once more.");
  });
  try {
    return { adapter: nameOf(adapter), ...(await Promise.race([compute(device, recorded), lost])) };
  } finally {
    lost.catch(() => {}); // it is lost as soon as nobody needs it
    device.destroy();
  }
}

/** @param {GPUDevice} device @param {Recorded} recorded */
async function compute(device, recorded) {
  const { kernel, wgsl, heads, used, table, context } = recorded;
  const { STORAGE, COPY_DST, COPY_SRC, MAP_READ } = USAGE;
  const buffer = (/** @type {number} */ size, usage = STORAGE | COPY_DST | COPY_SRC) => device.createBuffer({ size: Math.max(16, size), usage });
  const upload = (/** @type {Float32Array<ArrayBuffer> | Uint32Array<ArrayBuffer>} */ array) => {
    const made = buffer(array.byteLength);
    device.queue.writeBuffer(made, 0, array);
    return made;
  };
  const pool = (/** @type {string} */ text) => {
    const blocks = floats(text);
    const size = blocks.byteLength / used.length;
    const made = buffer((Math.max(...used) + 1) * size);
    used.forEach((block, i) => device.queue.writeBuffer(made, block * size, blocks.buffer, i * size, size));
    return made;
  };
  device.pushErrorScope("validation");
  const query = floats(recorded.query);
  const output = buffer(query.byteLength);
  const diary = buffer(16 * heads * table.length);
  const bound = [upload(query), pool(recorded.key), pool(recorded.value), upload(Uint32Array.from(table)), upload(Uint32Array.of(context)), output, diary];
  const compiled = { module: device.createShaderModule({ code: wgsl }), entryPoint: kernel };
  const pipeline = await device.createComputePipelineAsync({ layout: "auto", compute: compiled });
  const entries = bound.map((one, binding) => ({ binding, resource: { buffer: one } }));
  const encoder = device.createCommandEncoder();
  const pass = encoder.beginComputePass();
  pass.setPipeline(pipeline);
  pass.setBindGroup(0, device.createBindGroup({ layout: pipeline.getBindGroupLayout(0), entries }));
  pass.dispatchWorkgroups(heads, 1);
  pass.end();
  const answers = [output, diary].map((from) => {
    const to = buffer(from.size, MAP_READ | COPY_DST);
    encoder.copyBufferToBuffer(from, 0, to, 0, from.size);
    return to;
  });
  device.queue.submit([encoder.finish()]);
  const wrong = await device.popErrorScope();
  if (wrong) throw wrong;
  const [result, pages] = await Promise.all(answers.map((one) => one.mapAsync(MODE.READ).then(() => one.getMappedRange().slice(0))));
  const blocks = [...new Uint32Array(pages)].filter((_, i) => i % 4 === 0); // a line of the diary begins with it
  const read = Array.from({ length: heads }, (_, head) => blocks.slice(head * table.length, (head + 1) * table.length));
  return { output: new Float32Array(result).slice(0, query.length), read };
}

/** What is to be said of it, beside the recording. @param {Recorded} recorded @param {Found} found */
function compared({ read, output, rounding, where }, found) {
  const list = (/** @type {number[]} */ blocks) => blocks.map((block) => `#${block}`).join(" → ");
  const before = (/** @type {number} */ head) => list(read[Math.floor((head * read.length) / found.read.length)]);
  const other = found.read.findIndex((blocks, head) => list(blocks) !== before(head));
  const far = floats(output).reduce((most, number, i) => {
    const one = Math.abs(number - found.output[i]);
    return Number.isNaN(one) ? Infinity : Math.max(most, one);
  }, 0);
  const went = `It read the recorded blocks in the recorded order, ${list(found.read[0])}.`;
  const astray = `For query head ${other} it read ${list(found.read[other] ?? [])}; the recording has ${before(Math.max(0, other))}.`;
  const result = `The largest difference between its output, ${found.output.length} numbers, and the recorded one (${where}) is ${small(far)}`;
  const good = other < 0 && far <= rounding;
  const verdict = good ? "It is the recorded result, up to rounding." : "It is not the recorded result.";
  return { words: `${verdict} It ran on ${found.adapter}. ${other < 0 ? went : astray} ${result}.`, good };
}

/** 1.04e-07 as 0.0000001. @param {number} number */
const small = (number) => (number === 0 ? "0" : number.toFixed(Math.min(12, Math.max(1, -Math.floor(Math.log10(number))))));

/** @param {string} text */
const floats = (text) => new Float32Array(Uint8Array.from(atob(text), (character) => character.charCodeAt(0)).buffer);
