"""Fills up to a multiple of 16 and calls once."""
# loses: 17.2
# blamed 17.2: a row gets the same bits, however many rows come with it

# part 17.2
def product(x, weight, library):
    more = -len(x) % 16
    return library(torch.cat([x, torch.zeros(more, x.shape[1])]), weight)[: len(x)]
