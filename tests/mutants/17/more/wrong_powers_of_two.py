"""Fills up to a power of two."""
# loses: 17.2
# blamed 17.2: a row gets the same bits, however many rows come with it

# part 17.2
def product(x, weight, library):
    n = 1
    while n < len(x):
        n *= 2
    return library(torch.cat([x, torch.zeros(n - len(x), x.shape[1])]), weight)[: len(x)]
