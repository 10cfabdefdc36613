// Ladder 5 of 5: paged attention.
//
// The four steps before, in one loop: go through the table block by block; find the block; compare the query with its
// keys; let the online softmax weigh its values. One workgroup for each request and query head, one block an
// iteration, and nothing made faster. In the first half of an iteration an invocation is a token of the block, in the
// second half it is an element of the head: each adds up its own elements of V.
//
// With a diary (DIARY 1), it writes down after each iteration: physical block, where that block's K begins for this
// head, and the bits of largest and total.
//
// Constants: BLOCK_SIZE; GROUP, query heads that share a KV head; QUERY_HEADS; HEAD_SIZE, at most 256; TABLE, entries
// of a table; SCALE; DIARY.

@group(0) @binding(0) var<storage, read> query: array<f32>;            // [requests, QUERY_HEADS, HEAD_SIZE]
@group(0) @binding(1) var<storage, read> key: array<Number>;           // [blocks, BLOCK_SIZE, KV heads, HEAD_SIZE]
@group(0) @binding(2) var<storage, read> value: array<Number>;
@group(0) @binding(3) var<storage, read> block_tables: array<u32>;     // [requests, TABLE]
@group(0) @binding(4) var<storage, read> seq_lens: array<u32>;         // [requests]
@group(0) @binding(5) var<storage, read_write> output: array<f32>;     // [requests, QUERY_HEADS, HEAD_SIZE]
@group(0) @binding(6) var<storage, read_write> diary: array<vec4<u32>>;   // [requests, QUERY_HEADS, TABLE]

const LOWEST = -3.0e38;
const LANES = 64u;
const ELEMENTS = (HEAD_SIZE + LANES - 1u) / LANES;   // of the head, for each invocation
var<workgroup> scores: array<f32, BLOCK_SIZE>;

@compute @workgroup_size(LANES)
fn ladder5_decode(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let head = group.x;
    let request = group.y;
    let kv_head = head / GROUP;
    let kv_heads = QUERY_HEADS / GROUP;
    let length = seq_lens[request];
    let row = (request * QUERY_HEADS + head) * HEAD_SIZE;

    var largest = LOWEST;
    var total = 0.0;
    var weighted: array<f32, ELEMENTS>;
    for (var e = 0u; e < ELEMENTS; e++) { weighted[e] = 0.0; }
    for (var logical_block = 0u; logical_block * BLOCK_SIZE < length; logical_block++) {
        let physical_block_number = block_tables[request * TABLE + logical_block];
        let block_place = (physical_block_number * BLOCK_SIZE * kv_heads + kv_head) * HEAD_SIZE;
        let inside = min(BLOCK_SIZE, length - logical_block * BLOCK_SIZE);
        for (var offset = lane; offset < inside; offset += LANES) {
            let place = block_place + offset * kv_heads * HEAD_SIZE;
            var product = 0.0;
            for (var dim = 0u; dim < HEAD_SIZE; dim++) { product += query[row + dim] * f32(key[place + dim]); }
            scores[offset] = product * SCALE;
        }
        workgroupBarrier();

        var new_largest = largest;
        for (var offset = 0u; offset < inside; offset++) { new_largest = max(new_largest, scores[offset]); }
        let shrink = exp(largest - new_largest);
        total *= shrink;
        for (var e = 0u; e < ELEMENTS; e++) { weighted[e] *= shrink; }
        for (var offset = 0u; offset < inside; offset++) {
            let weight = exp(scores[offset] - new_largest);
            total += weight;
            let place = block_place + offset * kv_heads * HEAD_SIZE;
            for (var e = 0u; e < ELEMENTS; e++) {
                let dim = e * LANES + lane;
                if (dim < HEAD_SIZE) { weighted[e] += weight * f32(value[place + dim]); }
            }
        }
        largest = new_largest;
        if (DIARY == 1u && lane == 0u) {
            diary[(request * QUERY_HEADS + head) * TABLE + logical_block] =
                vec4<u32>(physical_block_number, block_place, bitcast<u32>(largest), bitcast<u32>(total));
        }
        workgroupBarrier();
    }
    for (var e = 0u; e < ELEMENTS; e++) {
        let dim = e * LANES + lane;
        if (dim < HEAD_SIZE) { output[row + dim] = weighted[e] / total; }
    }
}
