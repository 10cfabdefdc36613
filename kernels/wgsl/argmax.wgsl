// The likeliest token of each row of scores, the first of equals. One workgroup a row.
//
// Constants: VOCABULARY; LANES.

@group(0) @binding(0) var<storage, read> logits: array<f32>;             // [rows, VOCABULARY]
@group(0) @binding(1) var<storage, read_write> token_ids: array<u32>;    // [rows]

var<workgroup> best: array<f32, LANES>;
var<workgroup> where_best: array<u32, LANES>;

@compute @workgroup_size(LANES)
fn argmax(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let first = group.x * VOCABULARY;
    var largest = logits[first + min(lane, VOCABULARY - 1u)];
    var at = min(lane, VOCABULARY - 1u);
    for (var i = lane + LANES; i < VOCABULARY; i += LANES) {
        if (logits[first + i] > largest) {
            largest = logits[first + i];
            at = i;
        }
    }
    best[lane] = largest;
    where_best[lane] = at;
    workgroupBarrier();
    if (lane > 0u) { return; }
    for (var i = 1u; i < LANES; i++) {
        if (best[i] > largest || (best[i] == largest && where_best[i] < at)) {
            largest = best[i];
            at = where_best[i];
        }
    }
    token_ids[group.x] = at;
}
