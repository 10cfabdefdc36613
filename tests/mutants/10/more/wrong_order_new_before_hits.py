"""New blocks before what was found."""
# loses: 10.2
# blamed 10.2: inside allocate_slots, what was found is made safe before new blocks are taken

# part 10.2
order = list("kbaighcjldmef")
