"""In WGSL. Token by token, with signed numbers, a struct and functions of its own; only the first of them stores m and l."""
# loses: nothing

# part 05.3
split_kernel = """
struct State { m: f32, l: f32, acc: f32 }

fn seen(was: State, score: f32, v: f32) -> State {
    if (score <= was.m) {
        let weight = exp(score - was.m);
        return State(was.m, was.l + weight, was.acc + weight * v);
    }
    let shrink = exp(was.m - score);
    return State(score, was.l * shrink + 1.0, was.acc * shrink + v);
}

fn place_of(token: i32, head: u32) -> u32 {
    let block = token / i32(BLOCK_SIZE);
    let offset = u32(token - block * i32(BLOCK_SIZE));
    return table[block] * stride_block + offset * stride_token + (head / GROUP) * stride_head;
}

@compute @workgroup_size(HEAD_SIZE)
fn split_kernel(
    @builtin(workgroup_id) program: vec3<u32>, @builtin(num_workgroups) programs: vec3<u32>,
    @builtin(local_invocation_id) mine: vec3<u32>,
) {
    var state = State(LOWEST, 0.0, 0.0);
    let tokens = i32(BLOCKS_A_SPLIT * BLOCK_SIZE);
    var token = i32(program.y) * tokens;
    let end = min(token + tokens, i32(length));
    loop {
        if (token >= end) { break; }
        let place = place_of(token, program.x);
        var score = 0.0;
        for (var i = 0u; i < HEAD_SIZE; i++) { score += scale * query[program.x * HEAD_SIZE + i] * key[place + i]; }
        state = seen(state, score, value[place + mine.x]);
        token++;
    }
    let at = programs.y * program.x + program.y;
    if (mine.x == 0u) {
        largest[at] = state.m;
        total[at] = state.l;
    }
    partials[at * HEAD_SIZE + mine.x] = state.acc;
}
"""
merge_kernel = """
@compute @workgroup_size(HEAD_SIZE)
fn merge_kernel(@builtin(workgroup_id) program: vec3<u32>, @builtin(local_invocation_index) dim: u32) {
    let first = program.x * SPLITS;
    var m = largest[first];
    var l = total[first];
    var acc = partials[first * HEAD_SIZE + dim];
    for (var at = first + 1u; at < first + SPLITS; at++) {
        let new_m = max(m, largest[at]);
        let old = exp(m - new_m);
        let its = exp(largest[at] - new_m);
        l = l * old + total[at] * its;
        acc = acc * old + partials[at * HEAD_SIZE + dim] * its;
        m = new_m;
    }
    output[program.x * HEAD_SIZE + dim] = acc / l;
}
"""
