"""Takes the last of all matches; reads the free queue's length from what is owned; changes the lines that it was given."""
# loses: nothing

# part 15.1
def memory(log):
    def last(pattern, text=log):
        return re.findall(pattern, text)[-1]

    arguments = re.findall("non-default args: (.*)", log)
    size = re.findall(r"'block_size': (\d+)", arguments[-1]) if arguments else []
    free, total, used, peak = map(float, last(r"device \((.*?)/(.*?) GiB\).*usage is (.*?) GiB .*?, (.*?) GiB for peak"))
    tokens = int("".join(c for c in last(r"KV cache size: (\S+) tokens") if c.isdigit()))
    return {
        "blocks": tokens // int([16, *size][-1]),
        "pool": float(last(r"Available KV cache memory: (\S+) GiB")),
        "engine": used + peak,
        "others": total - free,
    }

# part 15.4
def moment(lines, step):
    lines.pop(0)
    count, named, hits, sizes, waiting = {}, set(), 0, 0, {}
    while lines:
        e = json.loads(lines.pop(0))
        if e["kind"] == "step_ended" and e["step"] == step:
            break
        change = {"blocks_allocated": 1, "block_touched": 1, "blocks_freed": -1}.get(e["kind"], 0)
        for block in e.get("block_ids", [e.get("block_id")]) if change else []:
            count[block] = count.get(block, 0) + change
        if e["kind"] == "block_cached":
            named |= {e["block_id"]}
        elif e["kind"] == "block_evicted":
            named -= {e["block_id"]}
        elif e["kind"] == "prefix_cache_reset":
            named = set()
        elif e["kind"] == "request_arrived":
            waiting[e["request_id"]] = len(e["token_ids"])
        elif e["kind"] == "request_admitted" and e["request_id"] in waiting:
            hits += e["num_computed_tokens"]
            sizes += waiting.pop(e["request_id"])
    return {"in_use": len(count) - list(count.values()).count(0), "cached": len(named), "found": hits, "asked": sizes}
