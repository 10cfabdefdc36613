"""Goes through a log line by line, without patterns; and keeps the set of owners of each block."""
# loses: nothing

# added
def starts(log):
    """The lines of the last start."""
    lines = log.splitlines()
    first = max((i for i, line in enumerate(lines) if "non-default args" in line), default=0)
    return lines[first:]


def between(line, before, after):
    return line.split(before, 1)[1].split(after, 1)[0]

# part 15.1
def memory(log):
    found, size = {}, 16
    for line in starts(log):
        if "non-default args" in line and "'block_size': " in line:
            size = int(between(line, "'block_size': ", ",").rstrip("}"))
        if "Available KV cache memory" in line:
            found["pool"] = float(between(line, "memory: ", " GiB"))
        if "KV cache size" in line:
            found["blocks"] = int(between(line, "size: ", " tokens").replace(",", "")) // size
        if "Actual usage" in line:
            free, total = map(float, between(line, "on device (", " GiB").split("/"))
            found["others"] = round(total - free, 2)
            found["engine"] = float(between(line, "usage is ", " GiB")) + float(between(line, "non-torch), ", " GiB"))
    return found

# part 15.2
def at_once(log, length):
    text = "\n".join(starts(log))
    arguments = eval("{" + text.split("non-default args: {", 1)[1].split("}", 1)[0] + "}")
    size = arguments.get("block_size", 16)
    if length > arguments["max_model_len"]:
        return [0, "max_model_len"]
    blocks = int(between(text, "KV cache size: ", " tokens").replace(",", "")) // size - 1
    count = 0
    while blocks >= -(-length // size) and count < arguments["max_num_seqs"]:
        count, blocks = count + 1, blocks - -(-length // size)
    return [count, "max_num_seqs" if count == arguments["max_num_seqs"] else "pool"]

# part 15.3
def mend(log):
    text = "\n".join(starts(log))
    if "less than desired" in text:
        free, total = between(text.split("Free memory on device")[-1], "(", " GiB").split("/")
        share = 0
        while (share + 1) * float(total) <= 100 * float(free):
            share += 1
        return ["card taken", "gpu_memory_utilization", share / 100]
    if "To serve at least one request" in text:
        return ["pool too small", "max_model_len", int(between(text, "model length is ", "."))]
    if "No available memory" in text:
        return ["no room", "gpu_memory_utilization", "higher"]
    return ["out of memory", "gpu_memory_utilization", "lower"] if "out of memory" in text else None

# part 15.4
def moment(lines, step):
    events = [json.loads(line) for line in lines[1:]]
    end = next(i for i, e in enumerate(events) if e["kind"] == "step_ended" and e["step"] == step)
    owners, hashed, first, prompt = {}, {}, {}, {}
    for e in events[:end]:
        match e["kind"]:
            case "blocks_allocated":
                for b in e["block_ids"]:
                    owners.setdefault(b, set()).add(e["request_id"])
            case "block_touched":
                owners.setdefault(e["block_id"], set()).add(e["request_id"])
            case "blocks_freed":
                for b in e["block_ids"]:
                    owners[b].remove(e["request_id"])
            case "block_cached":
                hashed[e["block_id"]] = e["block_hash"]
            case "block_evicted":
                del hashed[e["block_id"]]
            case "prefix_cache_reset":
                hashed = {}
            case "request_arrived":
                prompt[e["request_id"]] = e["token_ids"]
            case "request_admitted" if e["request_id"] not in first:
                first[e["request_id"]] = e["num_computed_tokens"], len(prompt[e["request_id"]])
    return {
        "in_use": len([b for b in owners if owners[b]]),
        "cached": len(hashed),
        "found": sum(found for found, _ in first.values()),
        "asked": sum(length for _, length in first.values()),
    }
