// Products of a matrix and a few vectors: y[token] = W x[token], or added to what is there.
//
// A decode step is bound by reading W. So a workgroup takes ROWS rows of it and TOKENS vectors at once: each number of
// W that it reads serves all of these vectors. Neighbouring lanes read neighbouring numbers; each adds up its own
// share of all ROWS * TOKENS products, and in the end the shares are brought together, with one barrier.
//
// Constants: IN, a multiple of 4; OUT, rows of W in this buffer; FIRST and WIDTH, where its results begin in a row of
// y and how long that is; ADD, 1 to add to y; BIAS, 1 where there is one; COUNT, which of the counts it is; ROWS,
// TOKENS, LANES.

@group(0) @binding(0) var<storage, read> counts: array<u32>;      // [COUNT]: how many vectors there are
@group(0) @binding(1) var<storage, read> weight: array<Four>;     // [OUT, IN]
@group(0) @binding(2) var<storage, read> bias: array<Number>;     // [OUT]
@group(0) @binding(3) var<storage, read> x: array<vec4<f32>>;     // [tokens, IN]
@group(0) @binding(4) var<storage, read_write> y: array<f32>;     // [tokens, WIDTH]

const DEPTH = IN / 4u;
const PRODUCTS = ROWS * TOKENS;
var<workgroup> shares: array<f32, PRODUCTS * LANES>;

@compute @workgroup_size(LANES)
fn linear(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let row = group.x * ROWS;
    let token = group.y * TOKENS;
    let last = counts[COUNT] - 1u;
    var sums: array<f32, PRODUCTS>;
    for (var i = 0u; i < PRODUCTS; i++) { sums[i] = 0.0; }
    for (var k = lane; k < DEPTH; k += LANES) {
        var vectors: array<vec4<f32>, TOKENS>;
        for (var t = 0u; t < TOKENS; t++) { vectors[t] = x[min(token + t, last) * DEPTH + k]; }
        for (var r = 0u; r < ROWS; r++) {
            let w = vec4<f32>(weight[min(row + r, OUT - 1u) * DEPTH + k]);
            for (var t = 0u; t < TOKENS; t++) { sums[r * TOKENS + t] += dot(w, vectors[t]); }
        }
    }
    for (var i = 0u; i < PRODUCTS; i++) { shares[i * LANES + lane] = sums[i]; }
    workgroupBarrier();
    for (var i = lane; i < PRODUCTS; i += LANES) {
        let r = row + i / TOKENS;
        let t = token + i % TOKENS;
        if (r < OUT && t <= last) {
            var sum = 0.0;
            for (var l = 0u; l < LANES; l++) { sum += shares[i * LANES + l]; }
            if (BIAS == 1u) { sum += f32(bias[r]); }
            let place = t * WIDTH + FIRST + r;
            if (ADD == 1u) { sum += y[place]; }
            y[place] = sum;
        }
    }
}
