"""The letters as they stand."""
# loses: 10.2

# part 10.2
order = list("abcdefghijklm")
