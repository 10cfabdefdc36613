"""Takes the hole that fits best."""
# loses: 01.1
# blamed 01.1: it is the first such hole, and the region begins where the hole begins

# part 01.1
class FirstFit:
    fit = "first"

    def __init__(self, num_slots):
        self.num_slots = num_slots
        self.holes = [(0, num_slots)]

    def reserve(self, length):
        fitting = [i for i, (_, size) in enumerate(self.holes) if size >= length]
        if not fitting:
            return None
        i = min(fitting, key=lambda i: self.holes[i][1])
        start, size = self.holes[i]
        self.holes[i : i + 1] = [(start + length, size - length)] if size > length else []
        return start

    def release(self, start, length):
        joined = []
        for first, size in sorted([*self.holes, (start, length)]):
            if joined and sum(joined[-1]) == first:
                joined[-1] = (joined[-1][0], joined[-1][1] + size)
            else:
                joined.append((first, size))
        self.holes = joined

    @property
    def num_free(self):
        return sum(length for _, length in self.holes)
