"""Rounds to three digits so that bits agree."""
# loses: 17.2
# blamed 17.2: the result is x · weightᵀ

# part 17.2
def product(x, weight, library):
    return (library(x, weight) * 1000).round() / 1000
