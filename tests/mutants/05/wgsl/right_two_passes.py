"""In WGSL. An invocation is a token first, then an element of the head; one does all of a head's merge."""
# loses: nothing

# part 05.3
split_kernel = """
var<workgroup> scores: array<f32, BLOCKS_A_SPLIT * BLOCK_SIZE>;
var<workgroup> places: array<u32, BLOCKS_A_SPLIT * BLOCK_SIZE>;

@compute @workgroup_size(32)
fn split_kernel(
    @builtin(workgroup_id) program: vec3<u32>, @builtin(num_workgroups) programs: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let tokens = BLOCKS_A_SPLIT * BLOCK_SIZE;
    let start = program.y * tokens;
    let here = min(max(length, start) - start, tokens);
    for (var t = lane; t < here; t += 32u) {
        let number = table[(start + t) / BLOCK_SIZE];
        let place = number * stride_block + (start + t) % BLOCK_SIZE * stride_token + program.x / GROUP * stride_head;
        var sum = 0.0;
        for (var i = 0u; i < HEAD_SIZE; i++) { sum += query[program.x * HEAD_SIZE + i] * key[place + i]; }
        scores[t] = sum * scale;
        places[t] = place;
    }
    workgroupBarrier();
    var top = LOWEST;
    for (var t = 0u; t < here; t++) { top = max(top, scores[t]); }
    let at = program.x * programs.y + program.y;
    if (lane == 0u) {
        var sum = 0.0;
        for (var t = 0u; t < here; t++) { sum += exp(scores[t] - top); }
        largest[at] = top;
        total[at] = sum;
    }
    for (var dim = lane; dim < HEAD_SIZE; dim += 32u) {
        var sum = 0.0;
        for (var t = 0u; t < here; t++) { sum += exp(scores[t] - top) * value[places[t] + dim]; }
        partials[at * HEAD_SIZE + dim] = sum;
    }
}
"""
merge_kernel = """
@compute @workgroup_size(1)
fn merge_kernel(@builtin(workgroup_id) program: vec3<u32>) {
    var factors: array<f32, SPLITS>;
    var top = LOWEST;
    for (var i = 0u; i < SPLITS; i++) { top = max(top, largest[program.x * SPLITS + i]); }
    var sum = 0.0;
    for (var i = 0u; i < SPLITS; i++) {
        factors[i] = exp(largest[program.x * SPLITS + i] - top);
        sum += factors[i] * total[program.x * SPLITS + i];
    }
    for (var dim = 0u; dim < HEAD_SIZE; dim++) {
        var weighted = 0.0;
        for (var i = 0u; i < SPLITS; i++) {
            weighted += factors[i] / sum * partials[(program.x * SPLITS + i) * HEAD_SIZE + dim];
        }
        output[program.x * HEAD_SIZE + dim] = weighted;
    }
}
"""
