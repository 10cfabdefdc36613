"""Joins a released region with the hole behind it, not with the one before."""
# loses: 01.1
# blamed 01.1: holes are in order, none is empty, and two that touch are one

# part 01.1
class FirstFit:
    fit = "first"

    def __init__(self, num_slots):
        self.num_slots = num_slots
        self.holes = [(0, num_slots)]

    def reserve(self, length):
        for i, (start, size) in enumerate(self.holes):
            if size >= length:
                self.holes[i : i + 1] = [(start + length, size - length)] if size > length else []
                return start
        return None

    def release(self, start, length):
        for hole in list(self.holes):
            if hole[0] == start + length:
                self.holes.remove(hole)
                length += hole[1]
        self.holes = sorted([*self.holes, (start, length)])

    @property
    def num_free(self):
        return sum(length for _, length in self.holes)
