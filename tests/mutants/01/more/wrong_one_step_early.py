"""Nobody who runs writes in this step."""
# loses: 01.3
# blamed 01.3: the written tokens are those from before, one more for each that was running, and the new prompts

# part 01.3
starts = [40, None, None]
account_after = [23, 10, 7, 8, 0]
