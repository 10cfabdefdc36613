// Paged attention of a decode step on a CPU: one query a request, K and V wherever their blocks lie.
//
// A piece of work is 256 positions of one request for one KV head, so that short and long requests share the cores well;
// its result is unfinished: the largest score, the sum of weights, and the weighted sum of V. A second pass adds up the
// pieces of each request from left to right. (On a GPU the same: kernels/decode_split.py.) Pieces are cut by position,
// so a request gets the same bits in any batch.
#include <cmath>
#include <vector>

#include "eight.h"

constexpr long PIECE = 256;   // positions
constexpr int TOGETHER = 4;   // query heads of a KV head that read a row of K or V at once

struct Sizes {  // strides in numbers
    long requests, query_heads, kv_heads, head_size, block_size, block_stride, slot_stride, head_stride, max_blocks, window;
    float scale;
};

// Where the token at `position` has its row: for K and V alike.
static inline long row_of(const Sizes& s, const int* table, long position) {
    return table[position / s.block_size] * s.block_stride + position % s.block_size * s.slot_stride;
}

// Scores of G query heads against `count` keys: score[g][i].
template <int G>
static void score_all(const Sizes& s, const float* query, const float* key, const long* row, long count,
                      float (*score)[PIECE]) {
    for (long i = 0; i < count; i++) {
        eight sums[G] = {};
        for (long d = 0; d < s.head_size; d += 8) {
            eight k = load(key + row[i] + d);
            for (int g = 0; g < G; g++) sums[g] += k * load(query + g * s.head_size + d);
        }
        for (int g = 0; g < G; g++) score[g][i] = sum(sums[g]) * s.scale;
    }
}

// Weighted sums of `count` values: to[g] = sum of weight[g][i] * V[i]; a few numbers of each row at a time.
template <int G, int VECTORS>
static void add_up(const float* value, const long* row, long count, float (*weight)[PIECE], float* to, long stride) {
    eight sums[G][VECTORS] = {};
    for (long i = 0; i < count; i++)
        for (int v = 0; v < VECTORS; v++) {
            eight part = load(value + row[i] + v * 8);
            for (int g = 0; g < G; g++) sums[g][v] += part * weight[g][i];
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

// One piece for G query heads: to[g] = weighted sum of V [head_size], sum of weights, largest score.
template <int G>
static void piece(const Sizes& s, const float* query, const float* key, const float* value, const long* row, long count,
                  float* to) {
    float weight[G][PIECE];
    long stride = s.head_size + 2, d = 0;
    score_all<G>(s, query, key, row, count, weight);
    for (int g = 0; g < G; g++) to[g * stride + s.head_size] = weigh(weight[g], count, to + g * stride + s.head_size + 1);
    for (; d + 32 <= s.head_size; d += 32) add_up<G, 4>(value + d, row, count, weight, to + d, stride);
    for (; d < s.head_size; d += 8) add_up<G, 1>(value + d, row, count, weight, to + d, stride);
}

// query and output: request r's rows [query_heads, head_size] begin at query + r * query_stride, output without gaps;
// key and value: one layer of the pool; tables [requests, max_blocks], lengths [requests]. A request sees the last
// `window` positions.
extern "C" void attend(const float* query, const float* key, const float* value, const int* tables, const int* lengths,
                       float* output, const Sizes* sizes, long query_stride) {
    const Sizes& s = *sizes;
    const long group = s.query_heads / s.kv_heads, stride = s.head_size + 2;
    struct Work { long request, head, first, end; };
    std::vector<Work> work;
    std::vector<long> begin;  // of each request and head: its first piece
    for (long r = 0; r < s.requests; r++)
        for (long h = 0; h < s.kv_heads; h++) {
            long first = lengths[r] > s.window ? lengths[r] - s.window : 0;
            begin.push_back(work.size());
            for (long cut = first / PIECE * PIECE; cut < lengths[r]; cut += PIECE)
                work.push_back({r, h, cut > first ? cut : first, cut + PIECE < lengths[r] ? cut + PIECE : lengths[r]});
        }
    begin.push_back(work.size());
    std::vector<float> unfinished(work.size() * group * stride);
#pragma omp parallel
    {
#pragma omp for schedule(dynamic, 1)
        for (size_t w = 0; w < work.size(); w++) {
            auto [r, h, first, end] = work[w];
            long row[PIECE], count = end - first;
            for (long i = 0; i < count; i++) row[i] = row_of(s, tables + r * s.max_blocks, first + i);
            const float *q = query + r * query_stride + h * group * s.head_size, *k = key + h * s.head_stride,
                        *v = value + h * s.head_stride;
            float* to = unfinished.data() + w * group * stride;
            for (long g = 0; g < group; g += TOGETHER, q += TOGETHER * s.head_size, to += TOGETHER * stride) switch (group - g) {
                case 1: piece<1>(s, q, k, v, row, count, to); break;
                case 2: piece<2>(s, q, k, v, row, count, to); break;
                case 3: piece<3>(s, q, k, v, row, count, to); break;
                default: piece<TOGETHER>(s, q, k, v, row, count, to);
            }
        }
#pragma omp for schedule(static)
        for (long one = 0; one < s.requests * s.query_heads; one++) {
            long pair = one / group, g = one % group;
            float most = -INFINITY, total = 0, *to = output + one * s.head_size;
            const float* from = unfinished.data() + g * stride;
            for (long w = begin[pair]; w < begin[pair + 1]; w++)
                most = std::fmax(most, from[w * group * stride + s.head_size + 1]);
            for (long d = 0; d < s.head_size; d++) to[d] = 0;
            for (long w = begin[pair]; w < begin[pair + 1]; w++) {
                const float* part = from + w * group * stride;
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
