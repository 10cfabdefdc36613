// The parts of a layer that treat each number or each token on its own: a row of numbers in, a row out.
#include <cmath>

#include "eight.h"
#include "kernels.h"

// to[t] = x[t] / root mean square of x[t] * weight; rows of n.
extern "C" void rms_norm(const float* x, const float* weight, float* to, long tokens, long n, float eps) {
    long whole = n / 8 * 8;
    for (long t = 0; t < tokens; t++, x += n, to += n) {
        eight squares = {};
        for (long i = 0; i < whole; i += 8) squares += load(x + i) * load(x + i);
        float total = sum(squares);
        for (long i = whole; i < n; i++) total += x[i] * x[i];
        float scale = 1.f / std::sqrt(total / n + eps);
        for (long i = 0; i < whole; i += 8) store(to + i, load(x + i) * scale * load(weight + i));
        for (long i = whole; i < n; i++) to[i] = x[i] * scale * weight[i];
    }
}

// Rotary embedding in place: x [tokens, heads, size], where the next token is `stride` numbers on. A pair (a, b) of
// elements i and i + size / 2 becomes (a cos - b sin, b cos + a sin); cos and sin [tokens, size / 2].
void rotate(float* x, const float* cos, const float* sin, long tokens, long heads, long size, long stride) {
    long half = size / 2, whole = half / 8 * 8;
    for (long t = 0; t < tokens; t++, x += stride, cos += half, sin += half)
        for (long h = 0; h < heads; h++) {
            float *first = x + h * size, *second = first + half;
            for (long i = 0; i < whole; i += 8) {
                eight a = load(first + i), b = load(second + i), c = load(cos + i), s = load(sin + i);
                store(first + i, a * c - b * s);
                store(second + i, b * c + a * s);
            }
            for (long i = whole; i < half; i++) {
                float a = first[i], b = second[i];
                first[i] = a * cos[i] - b * sin[i];
                second[i] = b * cos[i] + a * sin[i];
            }
        }
}

static inline eight gated(eight gate, eight up) { return gate / (exponential(-gate) + 1.f) * up; }

// to[t][i] = silu(x[t][i]) * x[t][n + i]: gate and up lie one behind the other in rows of 2 n.
void gate(const float* x, float* to, long tokens, long n) {
    long whole = n / 8 * 8;
    for (long t = 0; t < tokens; t++, x += 2 * n, to += n) {
        for (long i = 0; i < whole; i += 8) store(to + i, gated(load(x + i), load(x + n + i)));
        for (long i = whole; i < n; i++) to[i] = gated(all(x[i]), all(x[n + i]))[0];
    }
}
