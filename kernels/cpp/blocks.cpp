// Paged attention of a decode step on a CPU: one query a request, K and V wherever their blocks lie.
//
// A piece of work is some positions of one request, so that short and long requests share the cores well; its result is
// unfinished: the largest score, the sum of weights, and the weighted sum of V. A second pass adds up the pieces of each
// request from left to right. (On a GPU the same: kernels/decode_split.py.) Pieces are cut by position, so a request
// gets the same bits in any batch.
//
// The rows of all KV heads of a position lie side by side. So all heads read a few positions before any goes on: memory
// is read once, in the order in which it lies, as far as blocks allow.
#include <cmath>
#include <type_traits>
#include <vector>

#include "eight.h"

constexpr long PIECE = 128;   // positions
constexpr long AT_ONCE = 32;  // positions that all heads read before any goes on
constexpr int TOGETHER = 4;   // query heads of a KV head that read a row of K or V at once

struct Sizes {  // strides in numbers
    long requests, query_heads, kv_heads, head_size, block_size, block_stride, slot_stride, head_stride, max_blocks, window;
    float scale;
};

// Where the token at `position` has its row: for K and V alike.
static inline long row_of(const Sizes& s, const int* table, long position) {
    return table[position / s.block_size] * s.block_stride + position % s.block_size * s.slot_stride;
}

// Scores of G query heads against P keys, of which each is loaded once: score[g][0] to score[g][P - 1].
template <int G, int P>
static inline void scores(const Sizes& s, const float* query, const float* key, const long* row, float (*score)[PIECE]) {
    eight sums[G][P] = {};
    for (long d = 0; d < s.head_size; d += 8)
        for (int p = 0; p < P; p++) {
            eight k = load(key + row[p] + d);
            for (int g = 0; g < G; g++) sums[g][p] += k * load(query + g * s.head_size + d);
        }
    for (int g = 0; g < G; g++) {
        if constexpr (P == 4) four_sums(sums[g], score[g]);
        else score[g][0] = sum(sums[g][0]);
        for (int p = 0; p < P; p++) score[g][p] *= s.scale;
    }
}

// Scores of G query heads against `count` keys: score[g][i]. Meanwhile the rows that are read next are brought.
template <int G>
static void score_all(const Sizes& s, const float* query, const float* key, const long* row, long count,
                      const float* next, const long* next_row, float (*score)[PIECE]) {
    auto bring = [&](long i) {
        for (long d = 0; d < s.head_size; d += 16) __builtin_prefetch(next + next_row[i] + d);
    };
    long i = 0;
    for (; i + 4 <= count; i += 4) {
        for (int p = 0; p < 4; p++) bring(i + p);
        scores<G, 4>(s, query, key, row + i, (float(*)[PIECE])(score[0] + i));
    }
    for (; i < count; i++) bring(i), scores<G, 1>(s, query, key, row + i, (float(*)[PIECE])(score[0] + i));
}

// Weighted sums of `count` values, added: to[g] += sum of weight[g][i] * V[i]; a few numbers of each row at a time.
template <int G, int VECTORS>
static void add_up(const float* value, const long* row, long count, const float (*weight)[PIECE], float* to,
                   long stride) {
    eight sums[G][VECTORS];
    for (int g = 0; g < G; g++)
        for (int v = 0; v < VECTORS; v++) sums[g][v] = load(to + g * stride + v * 8);
    for (long i = 0; i < count; i++) {
        for (int v = 0; v < VECTORS; v += 2) __builtin_prefetch(value + row[i + AT_ONCE] + v * 8);
        for (int v = 0; v < VECTORS; v++) {
            eight part = load(value + row[i] + v * 8);
            for (int g = 0; g < G; g++) sums[g][v] += part * weight[g][i];
        }
    }
    for (int g = 0; g < G; g++)
        for (int v = 0; v < VECTORS; v++) store(to + g * stride + v * 8, sums[g][v]);
}

// Scores become weights, exp(score - most): returns their sum.
static float weigh(float* score, long count, float* most) {
    for (long i = count; i % 8; i++) score[i] = -INFINITY;  // PIECE is a multiple of 8
    eight highest = all(-INFINITY), total = {};
    for (long i = 0; i < count; i += 8) highest = larger(highest, load(score + i));
    *most = highest[0];
    for (int lane = 1; lane < 8; lane++) *most = highest[lane] > *most ? highest[lane] : *most;
    for (long i = 0; i < count; i += 8) {
        eight weight = exponential(load(score + i) - *most);
        for (long lane = count - i; lane < 8; lane++) weight[lane] = 0;
        store(score + i, weight);
        total += weight;
    }
    return sum(total);
}

// Calls `work` for the KV head and the first query head of up to TOGETHER that share it, their number a constant.
template <class Work>
static inline void for_heads(const Sizes& s, Work work) {
    for (long group = s.query_heads / s.kv_heads, h = 0; h < s.kv_heads; h++)
        for (long g = 0; g < group; g += TOGETHER) switch (group - g) {
            case 1: work(h, h * group + g, std::integral_constant<int, 1>()); break;
            case 2: work(h, h * group + g, std::integral_constant<int, 2>()); break;
            case 3: work(h, h * group + g, std::integral_constant<int, 3>()); break;
            default: work(h, h * group + g, std::integral_constant<int, TOGETHER>());
        }
}

// One piece: to[query head] = weighted sum of V [head_size], sum of weights, largest score.
static void piece(const Sizes& s, const float* query, const float* key, const float* value, const long* row, long count,
                  float (*weight)[PIECE], float* to) {
    const long stride = s.head_size + 2;
    for (long first = 0; first < count; first += AT_ONCE)
        for_heads(s, [&](long h, long q, auto G) {
            long n = count - first < AT_ONCE ? count - first : AT_ONCE;
            bool last = first + AT_ONCE >= count;
            score_all<G>(s, query + q * s.head_size, key + h * s.head_stride, row + first, n,
                         (last ? value : key) + h * s.head_stride, last ? row : row + first + AT_ONCE,
                         (float(*)[PIECE])(weight[q] + first));
        });
    for (long q = 0; q < s.query_heads; q++)
        to[q * stride + s.head_size] = weigh(weight[q], count, to + q * stride + s.head_size + 1);
    for (long first = 0; first < count; first += AT_ONCE)
        for_heads(s, [&](long h, long q, auto G) {
            long n = count - first < AT_ONCE ? count - first : AT_ONCE, d = 0;
            const float(*of)[PIECE] = (const float(*)[PIECE])(weight[q] + first), *v = value + h * s.head_stride;
            for (; d + 32 <= s.head_size; d += 32) add_up<G, 4>(v + d, row + first, n, of, to + q * stride + d, stride);
            for (; d < s.head_size; d += 8) add_up<G, 1>(v + d, row + first, n, of, to + q * stride + d, stride);
        });
}

// query and output: request r's rows [query_heads, head_size] begin at query + r * query_stride, output without gaps;
// key and value: one layer of the pool; tables [requests, max_blocks], lengths [requests]. A request sees the last
// `window` positions.
extern "C" void attend(const float* query, const float* key, const float* value, const int* tables, const int* lengths,
                       float* output, const Sizes* sizes, long query_stride) {
    const Sizes& s = *sizes;
    const long stride = s.head_size + 2, of_a_piece = s.query_heads * stride;
    struct Work { long request, first, end; };
    std::vector<Work> work;
    std::vector<long> begin;  // of each request: its first piece
    for (long r = 0; r < s.requests; r++) {
        long first = lengths[r] > s.window ? lengths[r] - s.window : 0;
        begin.push_back(work.size());
        for (long cut = first / PIECE * PIECE; cut < lengths[r]; cut += PIECE)
            work.push_back({r, cut > first ? cut : first, cut + PIECE < lengths[r] ? cut + PIECE : lengths[r]});
    }
    begin.push_back(work.size());
    std::vector<float> unfinished(work.size() * of_a_piece);
#pragma omp parallel
    {
        std::vector<float> weights(s.query_heads * PIECE);
#pragma omp for schedule(dynamic, 1)
        for (size_t w = 0; w < work.size(); w++) {
            auto [r, first, end] = work[w];
            long row[PIECE + AT_ONCE] = {};
            for (long i = first; i < end; i++) row[i - first] = row_of(s, tables + r * s.max_blocks, i);
            piece(s, query + r * query_stride, key, value, row, end - first, (float(*)[PIECE])weights.data(),
                  unfinished.data() + w * of_a_piece);
        }
#pragma omp for schedule(static)
        for (long one = 0; one < s.requests * s.query_heads; one++) {
            long r = one / s.query_heads, q = one % s.query_heads;
            float most = -INFINITY, total = 0, *to = output + one * s.head_size;
            const float* from = unfinished.data() + q * stride;
            for (long w = begin[r]; w < begin[r + 1]; w++)
                most = std::fmax(most, from[w * of_a_piece + s.head_size + 1]);
            for (long d = 0; d < s.head_size; d++) to[d] = 0;
            for (long w = begin[r]; w < begin[r + 1]; w++) {
                const float* part = from + w * of_a_piece;
                float scale = std::exp(part[s.head_size + 1] - most);
                total += scale * part[s.head_size];
                for (long d = 0; d < s.head_size; d += 8) store(to + d, load(to + d) + load(part + d) * scale);
            }
            for (long d = 0; d < s.head_size; d += 8) store(to + d, load(to + d) / total);
        }
    }
}

// Each token's K and V [kv_heads, head_size] into its slot; a slot of -1 is skipped. The next token's are
// `key_stride` and `value_stride` numbers on.
extern "C" void write_kv(const float* key, const float* value, const long* slots, float* keys, float* values,
                         const Sizes* sizes, long tokens, long key_stride, long value_stride) {
    const Sizes& s = *sizes;
    for (long t = 0; t < tokens; t++) {
        if (slots[t] < 0) continue;
        long to = slots[t] / s.block_size * s.block_stride + slots[t] % s.block_size * s.slot_stride;
        for (long h = 0; h < s.kv_heads; h++) {
            memcpy(keys + to + h * s.head_stride, key + t * key_stride + h * s.head_size, s.head_size * 4);
            memcpy(values + to + h * s.head_stride, value + t * value_stride + h * s.head_size, s.head_size * 4);
        }
    }
}
