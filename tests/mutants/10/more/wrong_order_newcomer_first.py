"""Who waits before who runs."""
# loses: 10.2
# blamed 10.2: who runs is served before who waits, each in the order of the list

# part 10.2
order = list("kighcljbadmef")
