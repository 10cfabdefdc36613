// y[token][row] = sum over i of x[token][i] * weight[row][i], for a few tokens: a decode step.
//
// With one token such a product is bound by reading the weights; with sixteen, by multiplying. So eight rows are walked
// side by side, and all tokens meet them while they lie in the nearest cache, two at a time: sixteen sums in registers.
// Each number of y is summed in the same order whatever the number of tokens: lane by lane over eight lanes, then the
// lanes.
#include "eight.h"

#ifdef __AVX512VL__
constexpr int TOKENS = 2;  // 16 sums and 8 rows fit into its 32 registers
#else
constexpr int TOKENS = 1;
#endif
constexpr int ROWS = 8;
constexpr long ROWS_OF_A_TURN = 32;  // what a thread takes on its way from one end of its part to the other

// T x R sums at once, over all n.
template <int T, int R>
static inline void tile(const float* x, const float* weight, const float* bias, float* y, long n, long num_rows) {
    eight sums[T][R] = {};
    long whole = n / 8 * 8;
    for (long i = 0; i < whole; i += 8) {
        eight row[R];
        for (int r = 0; r < R; r++) row[r] = load(weight + r * n + i);
        for (int t = 0; t < T; t++) {
            eight token = load(x + t * n + i);
            for (int r = 0; r < R; r++) sums[t][r] += token * row[r];
        }
    }
    for (int t = 0; t < T; t++)
        for (int r = 0; r < R; r++) {
            float total = sum(sums[t][r]);
            for (long i = whole; i < n; i++) total += x[t * n + i] * weight[r * n + i];
            y[t * num_rows + r] = bias ? total + bias[r] : total;
        }
}

template <int R>
static inline void all_tokens(const float* x, const float* weight, const float* bias, float* y, long tokens, long n,
                              long num_rows) {
    constexpr int PAIR = R == 1 ? 1 : TOKENS;  // of one row a compiler may join products and sums in another way for two
    long t = 0;
    for (; t + PAIR <= tokens; t += PAIR) tile<PAIR, R>(x + t * n, weight, bias, y + t * num_rows, n, num_rows);
    for (; t < tokens; t++) tile<1, R>(x + t * n, weight, bias, y + t * num_rows, n, num_rows);
}

// x [tokens, n], weight [num_rows, n], bias [num_rows] or none -> y [tokens, num_rows].
extern "C" void linear(const float* x, const float* weight, const float* bias, float* y, long tokens, long n,
                       long num_rows) {
#pragma omp parallel for schedule(static)
    for (long first = 0; first < num_rows; first += ROWS_OF_A_TURN) {
        long row = first, end = first + ROWS_OF_A_TURN < num_rows ? first + ROWS_OF_A_TURN : num_rows;
        for (; row + ROWS <= end; row += ROWS)
            all_tokens<ROWS>(x, weight + row * n, bias ? bias + row : nullptr, y + row, tokens, n, num_rows);
        for (; row < end; row++)
            all_tokens<1>(x, weight + row * n, bias ? bias + row : nullptr, y + row, tokens, n, num_rows);
    }
}
