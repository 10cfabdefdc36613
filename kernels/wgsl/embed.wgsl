// Each token's vector: its row of the embedding. One workgroup a token.
//
// Constants: HIDDEN, a multiple of 4; FIRST and ROWS, which rows of the embedding this buffer has; LANES.

@group(0) @binding(0) var<storage, read> embedding: array<Four>;   // [ROWS, HIDDEN]
@group(0) @binding(1) var<storage, read> token_ids: array<u32>;
@group(0) @binding(2) var<storage, read_write> hidden: array<vec4<f32>>;   // [tokens, HIDDEN]

const WIDTH = HIDDEN / 4u;

@compute @workgroup_size(LANES)
fn embed(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let id = token_ids[group.x];
    if (id < FIRST || id >= FIRST + ROWS) { return; }
    for (var i = lane; i < WIDTH; i += LANES) {
        hidden[group.x * WIDTH + i] = vec4<f32>(embedding[(id - FIRST) * WIDTH + i]);
    }
}
