// Ladder 4 of 5: how can a softmax be computed before the last score is known?
//
// Read the scores piece by piece, and keep the largest and the sum of all exp(score - largest) for what was seen so
// far. Where a piece brings a larger largest, one factor puts right what was added up before:
//
//     total = total * exp(old largest - new largest) + sum of exp(score - new largest) over this piece
//
// One workgroup, one loop. Its PIECE invocations fetch a score each, and show it to the others in workgroup memory;
// the barriers are where they wait for each other. (Triton has both inside of tl.max and tl.sum.)
//
// Constants: LENGTH; PIECE.

@group(0) @binding(0) var<storage, read> scores: array<f32>;           // [LENGTH]
@group(0) @binding(1) var<storage, read_write> result: array<f32>;     // [2]: largest, total

const LOWEST = -3.0e38;
var<workgroup> piece: array<f32, PIECE>;

@compute @workgroup_size(PIECE)
fn ladder4_softmax(@builtin(local_invocation_index) lane: u32) {
    var largest = LOWEST;
    var total = 0.0;
    for (var start = 0u; start < LENGTH; start += PIECE) {
        if (start + lane < LENGTH) { piece[lane] = scores[start + lane]; }
        workgroupBarrier();
        let inside = min(PIECE, LENGTH - start);
        var new_largest = largest;
        for (var i = 0u; i < inside; i++) { new_largest = max(new_largest, piece[i]); }
        total *= exp(largest - new_largest);
        for (var i = 0u; i < inside; i++) { total += exp(piece[i] - new_largest); }
        largest = new_largest;
        workgroupBarrier();
    }
    if (lane == 0u) {
        result[0] = largest;
        result[1] = total;
    }
}
