"""The manager's calls are taken for the pool's."""
# loses: 10.1

# part 10.1
owner = {letter: "pool" for letter in "abcdefghijklm"}
owner["k"] = owner["m"] = "scheduler"
