// Rotary embedding in the half-rotation form, in place: element i of a head is paired with element i + HEAD_SIZE / 2,
// and a pair (a, b) becomes (a cos - b sin, b cos + a sin). One lane a pair.
//
// Constants: HEADS, those that are turned (query heads, then KV heads); WIDTH, of a token's query, key and value
// together; HEAD_SIZE; LANES.

@group(0) @binding(0) var<storage, read> positions: array<u32>;
@group(0) @binding(1) var<storage, read> cosines: array<f32>;   // [positions, HEAD_SIZE / 2]
@group(0) @binding(2) var<storage, read> sines: array<f32>;
@group(0) @binding(3) var<storage, read_write> qkv: array<f32>;   // [tokens, WIDTH]

const HALF = HEAD_SIZE / 2u;

@compute @workgroup_size(LANES)
fn rope(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x >= HEADS * HALF) { return; }
    let token = id.y;
    let pair = id.x % HALF;
    let first = token * WIDTH + id.x / HALF * HEAD_SIZE + pair;
    let angle = positions[token] * HALF + pair;
    let a = qkv[first];
    let b = qkv[first + HALF];
    qkv[first] = a * cosines[angle] - b * sines[angle];
    qkv[first + HALF] = b * cosines[angle] + a * sines[angle];
}
