"""A stack of calls, sets for what is held, and tables made of events."""
# loses: nothing

# part 10.1
class Book:
    def __init__(self):
        self.pages = []

    def of(self, name):
        return [block for who, block in self.pages if who == name]


def tables(calls):
    book, stack = Book(), []
    for call in calls:
        del stack[call["depth"] :]
        stack.append(call)
        around = [c["request"] for c in stack if c["request"] is not None]
        if call["method"] == "free_blocks":
            for block in call["blocks"]:
                book.pages.remove((around[-1], block))
        elif call["method"] in {"touch", "get_new_blocks"}:
            book.pages += [(around[-1], block) for block in call["blocks"]]
    return {name: book.of(name) for name in dict.fromkeys(who for who, _ in book.pages)}
