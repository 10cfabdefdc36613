// Eight numbers at once: a vector of the processor, spelt so that any C++ compiler makes what its machine has of it.
#pragma once
#include <cstring>

typedef float eight __attribute__((vector_size(32)));
typedef int eight_ints __attribute__((vector_size(32)));

static inline eight load(const float* from) {
    eight v;
    memcpy(&v, from, sizeof v);  // from any address
    return v;
}

static inline void store(float* to, eight v) { memcpy(to, &v, sizeof v); }

static inline eight all(float number) { return eight{} + number; }

static inline float sum(eight v) {
    return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
}

// Eight of the sixteen numbers of a and b, by their places; compilers spell it in two ways.
#ifdef __clang__
#define PICKED(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define PICKED(a, b, ...) __builtin_shuffle(a, b, eight_ints{__VA_ARGS__})
#endif

// The sums of four vectors, to[0] to to[3]: each the same number as `sum` of it, in a third of the work.
static inline void four_sums(const eight* v, float* to) {
    eight halves[2];
    for (int i = 0; i < 2; i++)
        halves[i] = PICKED(v[2 * i], v[2 * i + 1], 0, 1, 2, 3, 8, 9, 10, 11) +
                    PICKED(v[2 * i], v[2 * i + 1], 4, 5, 6, 7, 12, 13, 14, 15);
    eight pairs = PICKED(halves[0], halves[1], 0, 1, 8, 9, 4, 5, 12, 13) +
                  PICKED(halves[0], halves[1], 2, 3, 10, 11, 6, 7, 14, 15);
    eight sums = PICKED(pairs, pairs, 0, 4, 2, 6, 0, 4, 2, 6) + PICKED(pairs, pairs, 1, 5, 3, 7, 1, 5, 3, 7);
    memcpy(to, &sums, 4 * sizeof(float));
}

static inline eight larger(eight a, eight b) { return a > b ? a : b; }

// exp(x), right to 2 units in the last place. x = n ln 2 + r: a polynomial for exp(r), n into the exponent's bits.
static inline eight exponential(eight x) {
    x = larger(all(-87.3f), x);  // in this order NaN stays NaN
    x = x > all(88.f) ? all(88.f) : x;
    eight n = x * 1.44269504f;
    n = (n + 12582912.f) - 12582912.f;  // to the nearest whole number: 1.5 * 2^23 leaves no room for a fraction
    eight r = (x - n * 0.693359375f) + n * 2.12194440e-4f;  // ln 2 in two parts
    eight p = all(1.9875691e-4f);
    p = p * r + 1.3981999e-3f;
    p = p * r + 8.3334519e-3f;
    p = p * r + 4.1665796e-2f;
    p = p * r + 1.6666665e-1f;
    p = p * r + 0.5f;
    p = p * r * r + r + 1.f;
    eight_ints power = (__builtin_convertvector(n, eight_ints) + 127) << 23;
    eight scale;
    memcpy(&scale, &power, sizeof scale);
    return p * scale;
}
