// y[token][row] = sum over i of x[token][i] * weight[row][i], for a few tokens: a decode step.
//
// With one token such a product is bound by reading the weights; with sixteen, by multiplying. Both are to go on at once:
// while four rows lie in the nearest cache and all tokens meet them, four at a time, the next four rows are on their way
// into the cache behind it. Each group of tokens sends for its share of them, so that memory is never asked for more than
// it has time to bring.
// Each number of y is summed in the same order whatever the number of tokens: lane by lane over eight lanes, then the
// lanes.
#include <algorithm>

#include "eight.h"
#include "kernels.h"

constexpr int TOKENS = 4, ROWS = 4;  // 16 sums in registers: one load serves four of them
constexpr long ROWS_OF_A_TURN = 32;  // what a thread takes on its way from one end of its part to the other

// What a group of tokens sends for: rows first to last of those from `rows` on.
struct Next {
    const float* rows;
    int first, last;
};

// T x R sums at once, over all n.
template <int T, int R>
static inline void tile(const float* x, const float* weight, const float* bias, float* y, long n, long num_rows,
                        Next next) {
    eight sums[T][R] = {};
    long whole = n / 8 * 8;
    for (long i = 0; i < whole; i += 8) {
        eight row[R];
        for (int r = 0; r < R; r++) row[r] = load(weight + r * n + i);
        for (int r = next.first; r < next.last; r++) __builtin_prefetch(next.rows + r * n + i, 0, 2);
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
                              long num_rows, const float* next) {
    constexpr int GROUP = R == 1 ? 1 : TOKENS;  // of one row a compiler may join products and sums in another way for four
    long groups = tokens / GROUP + tokens % GROUP, group = 0;
    auto share = [&] { return Next{next, int(group * R / groups), int((group + 1) * R / groups)}; };
    long t = 0;
    for (; t + GROUP <= tokens; t += GROUP, group++)
        tile<GROUP, R>(x + t * n, weight, bias, y + t * num_rows, n, num_rows, share());
    for (; t < tokens; t++, group++) tile<1, R>(x + t * n, weight, bias, y + t * num_rows, n, num_rows, share());
}

// x [tokens, n], weight [num_rows, n], bias [num_rows] or none -> y [tokens, num_rows].
extern "C" void linear(const float* x, const float* weight, const float* bias, float* y, long tokens, long n,
                       long num_rows) {
#pragma omp parallel for schedule(static)
    for (long first = 0; first < num_rows; first += ROWS_OF_A_TURN) {
        long row = first, end = std::min(first + ROWS_OF_A_TURN, num_rows);
        for (; row + ROWS <= end; row += ROWS) {
            long next = std::min(row + ROWS, num_rows - ROWS);
            all_tokens<ROWS>(x, weight + row * n, bias ? bias + row : nullptr, y + row, tokens, n, num_rows,
                             weight + next * n);
        }
        for (; row < end; row++)
            all_tokens<1>(x, weight + row * n, bias ? bias + row : nullptr, y + row, tokens, n, num_rows,
                          weight + row * n);
    }
}
