// How does a token attend to everything before it, when "everything" lies in blocks? For decoding and prefill alike:
// each token of a step brings the row of its request's table, and its position says how far it sees.
//
// One workgroup for each token and KV head, as in kernels/decode.py: the query heads that share the KV head (the
// *group*) read each K and V once. It walks the context in tiles of LANES tokens:
//
//   1  lane i finds token i of the tile through the table, and multiplies its K with the group's queries: a score each
//   2  every lane looks for the tile's largest score, and lane i turns its own into weights; what was added up before
//      shrinks, where a larger score came
//   3  lane (part, j) adds up element j (four numbers) of every PARTS-th token's V: neighbours read neighbours
//
// Nothing is read that no token was written to. An array that is declared in a loop is zeroed by hand: one
// implementation does not do it again in the second round.
//
// Constants: GROUP; KV_HEADS; HEAD_SIZE, a multiple of 4 and at most 4 * LANES; BLOCK_SIZE; WIDTH, of a token's query,
// key and value together; TABLE, entries of a table; SCALE; LANES.

@group(0) @binding(0) var<storage, read> qkv: array<vec4<f32>>;        // [tokens, WIDTH], the query heads first
@group(0) @binding(1) var<storage, read> key: array<Four>;             // [blocks, block size, KV heads, head size]
@group(0) @binding(2) var<storage, read> value: array<Four>;
@group(0) @binding(3) var<storage, read> block_tables: array<u32>;     // [requests, TABLE]
@group(0) @binding(4) var<storage, read> requests: array<u32>;         // of each token: the row of its table
@group(0) @binding(5) var<storage, read> positions: array<u32>;
@group(0) @binding(6) var<storage, read_write> attended: array<vec4<f32>>;   // [tokens, query heads, head size]

const DEPTH = HEAD_SIZE / 4u;
const PARTS = LANES / DEPTH;
const LOWEST = -3.0e38;

var<workgroup> scores: array<f32, GROUP * LANES>;
var<workgroup> weights: array<f32, GROUP * LANES>;
var<workgroup> places: array<u32, LANES>;   // where each token of the tile has its K and V
var<workgroup> sums: array<vec4<f32>, LANES>;

@compute @workgroup_size(LANES)
fn attend(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let kv_head = group.x;
    let token = group.y;
    let table = requests[token] * TABLE;
    let context = positions[token] + 1u;
    let query = token * (WIDTH / 4u) + kv_head * GROUP * DEPTH;
    let part = lane / DEPTH;
    let j = lane % DEPTH;

    var largest: array<f32, GROUP>;
    var total: array<f32, GROUP>;            // of this lane's tokens only
    var weighted: array<vec4<f32>, GROUP>;   // of this lane's part and elements only
    for (var g = 0u; g < GROUP; g++) {
        largest[g] = LOWEST;
        total[g] = 0.0;
        weighted[g] = vec4<f32>(0.0);
    }
    for (var start = 0u; start < context; start += LANES) {
        let tokens = min(LANES, context - start);
        if (lane < tokens) {
            let position = start + lane;
            let physical_block_number = block_tables[table + position / BLOCK_SIZE];
            let slot = physical_block_number * BLOCK_SIZE + position % BLOCK_SIZE;
            let place = (slot * KV_HEADS + kv_head) * DEPTH;
            places[lane] = place;
            var dots: array<f32, GROUP>;
            for (var g = 0u; g < GROUP; g++) { dots[g] = 0.0; }
            for (var i = 0u; i < DEPTH; i++) {
                let k = vec4<f32>(key[place + i]);
                for (var g = 0u; g < GROUP; g++) { dots[g] += dot(k, qkv[query + g * DEPTH + i]); }
            }
            for (var g = 0u; g < GROUP; g++) { scores[g * LANES + lane] = dots[g] * SCALE; }
        }
        workgroupBarrier();

        for (var g = 0u; g < GROUP; g++) {
            var new_largest = largest[g];
            for (var t = 0u; t < tokens; t++) { new_largest = max(new_largest, scores[g * LANES + t]); }
            var weight = 0.0;
            if (lane < tokens) { weight = exp(scores[g * LANES + lane] - new_largest); }
            weights[g * LANES + lane] = weight;
            let shrink = exp(largest[g] - new_largest);
            total[g] = total[g] * shrink + weight;
            weighted[g] *= shrink;
            largest[g] = new_largest;
        }
        workgroupBarrier();

        if (part < PARTS) {
            for (var t = part; t < tokens; t += PARTS) {
                let v = vec4<f32>(value[places[t] + j]);
                for (var g = 0u; g < GROUP; g++) { weighted[g] += weights[g * LANES + t] * v; }
            }
        }
        workgroupBarrier();   // before the next tile takes this one's place
    }

    // Each lane has its share of the sums; bring them together.
    for (var g = 0u; g < GROUP; g++) {
        scores[g * LANES + lane] = total[g];
        sums[lane] = weighted[g];
        workgroupBarrier();
        if (lane < DEPTH) {
            var sum = sums[lane];
            for (var p = 1u; p < PARTS; p++) { sum += sums[p * DEPTH + lane]; }
            var all = 0.0;
            for (var i = 0u; i < LANES; i++) { all += scores[g * LANES + i]; }
            attended[((token * KV_HEADS + kv_head) * GROUP + g) * DEPTH + lane] = sum / all;
        }
        workgroupBarrier();
    }
}
