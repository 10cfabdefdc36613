// The gated feed-forward's middle: silu(gate) * up, number by number, where silu(x) = x / (1 + exp(-x)).
//
// Constants: INTERMEDIATE; LANES.

@group(0) @binding(0) var<storage, read> gate_up: array<f32>;          // [tokens, 2 * INTERMEDIATE]
@group(0) @binding(1) var<storage, read_write> gated: array<f32>;      // [tokens, INTERMEDIATE]

@compute @workgroup_size(LANES)
fn gate(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x >= INTERMEDIATE) { return; }
    let first = id.y * 2u * INTERMEDIATE + id.x;
    let x = gate_up[first];
    gated[id.y * INTERMEDIATE + id.x] = x / (1.0 + exp(-x)) * gate_up[first + INTERMEDIATE];
}
