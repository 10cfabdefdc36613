// Scale a token's vector to root mean square 1, then by a learnt weight. One workgroup a token.
//
// Constants: HIDDEN, a multiple of 4; EPSILON; LANES.

@group(0) @binding(0) var<storage, read> hidden: array<vec4<f32>>;   // [tokens, HIDDEN]
@group(0) @binding(1) var<storage, read> weight: array<Four>;        // [HIDDEN]
@group(0) @binding(2) var<storage, read_write> normed: array<vec4<f32>>;

const WIDTH = HIDDEN / 4u;
var<workgroup> squares: array<f32, LANES>;

@compute @workgroup_size(LANES)
fn rms_norm(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let first = group.x * WIDTH;
    var sum = 0.0;
    for (var i = lane; i < WIDTH; i += LANES) { sum += dot(hidden[first + i], hidden[first + i]); }
    squares[lane] = sum;
    workgroupBarrier();
    sum = 0.0;
    for (var i = 0u; i < LANES; i++) { sum += squares[i]; }
    let scale = inverseSqrt(sum / f32(HIDDEN) + EPSILON);
    for (var i = lane; i < WIDTH; i += LANES) {
        normed[first + i] = hidden[first + i] * scale * vec4<f32>(weight[i]);
    }
}
