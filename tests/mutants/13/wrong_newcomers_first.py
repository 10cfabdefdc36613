"""Newcomers before those who run; a chunk samples; the placeholder has no slot; what comes late is kept."""
# loses: 13.1 13.2 13.3 13.4
# blamed 13.1: those who run come first, in their order, and take what they have to compute as far as it lasts
# blamed 13.2: who has tokens left to compute samples nothing
# blamed 13.3: blocks: as many as are missing for the slots of this plan
# blamed 13.4: a stop token costs one plan more, whose token is dropped; max_tokens is seen coming

# part 13.1
def step(running, waiting, budget, seats, chunked):
    shares, seats = [], seats - len(running)
    for request in waiting[:seats]:
        tokens = min(request["tokens"] - request["found"], budget)
        if tokens:
            shares.append((request["name"], tokens))
            budget -= tokens
    for request in running:
        tokens = min(request["tokens"] - request["computed"], budget)
        if tokens:
            shares.append((request["name"], tokens))
            budget -= tokens
    return shares

# part 13.2
def samples(requests, shares):
    return [name for name, tokens in shares]

# change 13.3
-    blocks = -(-(computed + tokens) // block_size) - -(-computed // block_size)
+    blocks = -(-(computed + tokens - awaited) // block_size) - -(-computed // block_size)

# change 13.4
-    return {"answer": answer, "plans": plans, "dropped": plans - len(answer), "held": held}
+    return {"answer": answer, "plans": plans, "dropped": 0, "held": held}
