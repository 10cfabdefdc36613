"""The last tile begins earlier, so that it is full; few rows are not filled up."""
# loses: 17.2
# blamed 17.2: a row gets the same bits, however many rows come with it

# part 17.2
def product(x, weight, library):
    if len(x) <= 16:
        return library(x, weight)
    out = torch.empty(len(x), len(weight))
    for first in range(0, len(x), 16):
        first = min(first, len(x) - 16)
        out[first : first + 16] = library(x[first : first + 16], weight)
    return out
