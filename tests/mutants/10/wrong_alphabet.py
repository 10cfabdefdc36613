"""The letters as they stand."""
# loses: 10.2
# blamed 10.2: the scheduler decides first, and takes in what was sampled when all that it decided is done

# part 10.2
order = list("abcdefghijklm")
