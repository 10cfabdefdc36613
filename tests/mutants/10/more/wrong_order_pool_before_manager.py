"""free_blocks before free."""
# loses: 10.2
# blamed 10.2: the blocks of who has finished are given back at the end

# part 10.2
order = list("kbaighcljdmfe")
