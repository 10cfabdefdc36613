// A layer before its attention and behind it, each in one call: between two calls from Python the processor waits, for
// the product before has driven all that Python needs out of its caches.
#include <memory>

#include "kernels.h"

// Memory that nobody clears first.
static std::unique_ptr<float[]> floats(long count) { return std::unique_ptr<float[]>(new float[count]); }

// hidden [tokens, n] -> y [tokens, num_heads, size]: normalised, times weight [num_heads * size, n], plus bias or none;
// the first `num_turned` heads are rotated.
extern "C" void heads(const float* hidden, const float* norm, const float* weight, const float* bias, const float* cos,
                      const float* sin, float* y, long tokens, long n, long num_heads, long size, long num_turned,
                      float eps) {
    auto x = floats(tokens * n);
    rms_norm(hidden, norm, x.get(), tokens, n, eps);
    linear(x.get(), weight, bias, y, tokens, n, num_heads * size);
    rotate(y, cos, sin, tokens, num_turned, size, num_heads * size);
}

// hidden [tokens, n] -> y [tokens, n]: normalised, times gate_up [2 m, n], gated, times down [n, m].
extern "C" void feed_forward(const float* hidden, const float* norm, const float* gate_up, const float* down, float* y,
                             long tokens, long n, long m, float eps) {
    auto x = floats(tokens * n), both = floats(tokens * 2 * m), gated = floats(tokens * m);
    rms_norm(hidden, norm, x.get(), tokens, n, eps);
    linear(x.get(), gate_up, nullptr, both.get(), tokens, n, 2 * m);
    gate(both.get(), gated.get(), tokens, m);
    linear(gated.get(), down, nullptr, y, tokens, m, n);
}
