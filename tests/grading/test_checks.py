"""A check in a notebook: one line whatever the learner's code prints, an error after a cross, hints that get warmer."""

import functools
import sys

import pytest

from pagedlab.errors import PagedlabError
from pagedlab.grading import CheckFailed, check, checks, report
from pagedlab.grading.exercises.ex03.facts import facts
from pagedlab.grading.part import EXERCISES, Verdict, load_exercise
from pagedlab.grading.plain import NotPlain, attempt, plain, same
from pagedlab.grading.tasks.ex03 import puzzle, story
from pagedlab.kv import BlockTable, KVCacheBlock
from pagedlab.trace import replay

ONLY_LINE = "✓ 03.1 BlockTable finds every position (3 points)\n"


@pytest.fixture(autouse=True)
def fresh_kernel(monkeypatch):
    monkeypatch.setattr(checks, "_verdicts", {})
    monkeypatch.setattr(checks, "_broken", {})


class Chatty:
    """Somebody's own right answer, which prints."""

    def __init__(self, block_size):
        self.block_size, self.block_ids = block_size, []

    def append(self, block_ids):
        self.block_ids += block_ids

    def locate(self, position):
        print("looking for", position)
        if not 0 <= position < len(self.block_ids) * self.block_size:
            raise IndexError(position)
        return self.block_ids[position // self.block_size], position % self.block_size

    def __len__(self):
        return len(self.block_ids)


class OffByOne(Chatty):
    def locate(self, position):
        block, offset = super().locate(position)
        return block, offset + 1


def test_a_right_answer_prints_its_line_and_nothing_else(capsys):
    check("03.1", Chatty)
    assert capsys.readouterr().out == ONLY_LINE


def test_a_wrong_answer_prints_one_line_and_raises_with_a_small_case(capsys):
    with pytest.raises(CheckFailed) as error:
        check("03.1", OffByOne)
    out = capsys.readouterr().out
    assert out.startswith("✗ 03.1") and out.count("\n") == 1
    assert "block size 4" in str(error.value) and "locate(0) gave" in str(error.value)
    assert "looking for" in str(error.value)


def test_hints_get_warmer_when_the_same_property_fails_again():
    hints = []
    for _ in range(3):
        with pytest.raises(CheckFailed) as error:
            check("03.1", OffByOne)
        hints.append(next(line for line in str(error.value).splitlines() if line.startswith("Hint")))
    assert hints[0] != hints[1] == hints[2]


def test_an_exercise_that_nobody_has_touched_says_so():
    def not_written(*_, **__):
        raise NotImplementedError()

    for name, objects in (("03.2", [not_written]), ("03.3", [..., ...]), ("03.4", [...])):
        with pytest.raises(CheckFailed, match="none yet where the cell says YOUR CODE HERE"):
            check(name, *objects, seed=47)


def test_on_colab_the_report_says_how_to_take_the_work_home(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "google.colab", object())
    report("03")
    assert "Download .ipynb" in capsys.readouterr().out


def test_a_check_with_the_wrong_number_of_objects_says_what_it_takes():
    with pytest.raises(PagedlabError, match="table_after_prefill, tokens_in_block"):
        check("03.3", [1])
    with pytest.raises(PagedlabError, match=r"03\.1, 03\.2"):
        check("03.7", [1])
    with pytest.raises(PagedlabError, match="no exercise"):
        check("77.1", [1])


def test_a_wrong_prediction_is_not_told_the_right_one():
    right = facts(47)
    wrong = [None, None, 7, None, None, None, 5]
    for answer in (wrong, [1] * 7, [None] * 7, "x", [None] * 6):
        with pytest.raises(CheckFailed) as error:
            check("03.4", answer, seed=47)
        assert str(right.new_blocks) not in str(error.value)


def wrapper(block_size):
    return BlockTable(block_size)


def imported_inside(block_size):
    from pagedlab.kv import BlockTable as Table

    return Table(block_size)


class Heir(BlockTable):
    pass


class Patchwork(Chatty):
    locate = BlockTable.locate


BORROWED = [BlockTable, Heir, Patchwork, wrapper, imported_inside, functools.partial(BlockTable), BlockTable(4).locate]


@pytest.mark.parametrize("answer", BORROWED, ids=lambda answer: getattr(answer, "__name__", "partial"))
def test_a_part_answered_by_pagedlabs_own_code_is_refused(answer, capsys):
    with pytest.raises(CheckFailed, match="pagedlab's own pagedlab.kv.*BlockTable"):
        check("03.1", answer)
    assert capsys.readouterr().out == "✗ 03.1 BlockTable finds every position: the answer is your own code\n"


# Whatever way our table goes into an answer to 03.1: ``answer`` is what is handed in, ``T`` is ours.
WAYS = {
    "default argument": "def answer(size, make=T): return make(size)",
    "keyword default": "def answer(size, *, make=T): return make(size)",
    "list": "ours = [T]\ndef answer(size): return ours[0](size)",
    "dict": "ours = {1: T}\ndef answer(size): return ours[1](size)",
    "closure": "def outer(make):\n    return lambda size: make(size)\nanswer = outer(T)",
    "attribute of a function": "def answer(size): return answer.make(size)\nanswer.make = T",
    "class attribute": "class answer:\n    make = T\n    def __new__(cls, size): return cls.make(size)",
    "instance attribute": """
class answer:
    def __init__(self, size): self.inner = T(size)
    def append(self, ids): self.inner.append(ids)
    def locate(self, position): return self.inner.locate(position)
    def __len__(self): return len(self.inner)""",
    "passing on": """
class answer:
    def __init__(self, size): self.inner = T(size)
    def __getattr__(self, name): return getattr(self.inner, name)
    def __len__(self): return len(self.inner)""",
    "partial": "import functools\nanswer = functools.partial(T)",
    "metaclass": "class Meta(type):\n    def __call__(cls, size): return T(size)\nclass answer(metaclass=Meta): pass",
    "module": "import pagedlab.kv as kv\ndef answer(size): return kv.BlockTable(size)",
    "sys.modules": "import sys\ndef answer(size): return sys.modules['pagedlab.kv'].BlockTable(size)",
    "importlib": "import importlib\nanswer = lambda size: importlib.import_module('pagedlab' + '.kv').BlockTable(size)",
    "a computed name": "import pagedlab.kv\nanswer = lambda size: getattr(pagedlab.kv, 'Block' + 'Table')(size)",
    "eval": "answer = lambda size: eval('T')(size)",
    "subclass": "class answer(T):\n    def locate(self, position): return super().locate(position)",
    "made by type()": "answer = type('answer', (T,), {})",
    "called object": "class Maker:\n    def __call__(self, size): return T(size)\nanswer = Maker()",
    "from a run": "answer = type(next(iter(story(47).tables.values())))",
    "instance made before": """
import copy
made = T(4)
class answer:
    def __init__(self, size): self.inner = copy.deepcopy(made); self.inner.block_size = size
    def append(self, ids): self.inner.append(ids)
    def locate(self, position): return self.inner.locate(position)
    def __len__(self): return len(self.inner)""",
    "borrowed functions": """
class answer:
    def __init__(self, size): self.block_size, self.block_ids = size, []
    def append(self, ids): self.block_ids += ids
    def __len__(self): return len(self.block_ids)
    locate = vars(T)['locate']""",
    "copied functions": """
import types
class answer:
    def __init__(self, size): self.block_size, self.block_ids = size, []
    def append(self, ids): self.block_ids += ids
    def __len__(self): return len(self.block_ids)
    locate = types.FunctionType(T.locate.__code__, {})""",
    "the module anew": "import runpy, pagedlab.kv.block_table as b\nanswer = runpy.run_path(b.__file__)['BlockTable']",
    "source text": """
import inspect
from collections.abc import Sequence
exec(inspect.getsource(T))
answer = BlockTable""",
    "source text under other names": """
import ast, inspect
tree = ast.parse(inspect.getsource(T)).body[0]
tree.name = "answer"
for node in ast.walk(tree):
    if isinstance(node, ast.FunctionDef):
        node.returns = None
        node.body = [s for s in node.body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
    if isinstance(node, ast.arg):
        node.annotation = None
        node.arg = "x" + node.arg
    if isinstance(node, ast.Name) and node.id not in ("len", "range", "min", "ValueError", "IndexError", "divmod"):
        node.id = "x" + node.id
exec(compile(ast.unparse(tree).replace("xlist", "list"), "mine", "exec"))""",
    "property": "class Box:\n    @property\n    def make(self): return T\nanswer = lambda size: Box().make(size)",
    "a generator": "ours = iter([T] * 999)\nanswer = lambda size: next(ours)(size)",
    "weak reference": "import weakref\nours = weakref.ref(T)\nanswer = lambda size: ours()(size)",
}


@pytest.mark.parametrize("way", WAYS)
def test_ours_is_refused_by_whatever_way_it_came_and_works_again_afterwards(way):
    space = {"T": BlockTable, "story": story}
    exec(WAYS[way], space)
    with pytest.raises(CheckFailed, match="pagedlab's own pagedlab.kv.block_table.BlockTable"):
        check("03.1", space["answer"])
    assert BlockTable(4, [7]).locate(2) == (7, 2)


def test_the_report_adds_up_what_this_kernel_has_seen(capsys):
    check("03.1", Chatty)
    with pytest.raises(CheckFailed):
        check("03.4", None, seed=1)
    capsys.readouterr()
    report("03")
    out = capsys.readouterr().out.splitlines()
    assert [line[0] for line in out[:4]] == ["✓", "·", "·", "✗"]
    assert out[-1].strip() == "so far 3 of 10 points"


@pytest.mark.parametrize("seed", range(6))
def test_a_story_is_a_puzzle_the_neighbour_takes_a_block_that_z_might_have_counted_on(seed):
    question, happened = puzzle(seed), facts(seed)
    rest = question.free_queue[len(happened.table_after_prefill):]
    taken = [block for block in happened.new_blocks if block is not None]
    assert taken and taken[0] != rest[0]
    assert sum(happened.tokens_in_block) == question.num_prompt_tokens


def test_the_story_runs_on_a_learners_block_table():
    class Mine(BlockTable):
        pass

    llm = story(47, block_table=Mine)
    llm.step()
    assert isinstance(llm.tables["Z"], Mine)
    assert replay(llm.trace).tables["Z"] == llm.tables["Z"].block_ids == facts(47).table_after_prefill


def test_a_list_that_a_later_call_overwrites_is_no_answer():
    kept, empty = [], []

    def reuses(n):
        kept[:] = range(n)
        return kept

    assert attempt(reuses, 3) == [0, 1, 2] and attempt(reuses, 3) == [0, 1, 2]
    assert "overwritten" in attempt(reuses, 2)["raised"]
    assert attempt(lambda: empty) == attempt(lambda: empty) == []
    assert [attempt(list, "ab"), attempt(list, "c")] == [["a", "b"], ["c"]]


def test_plain_data_are_copied_and_everything_else_is_refused():
    class Sly(int):
        pass

    assert plain(({"a": (1, 2.0, None)}, True)) == [{"a": [1, 2.0, None]}, True]
    for value in (Sly(1), [Sly(1)], {1: 2}, {1}, object(), 10**2000, ...):
        with pytest.raises(NotPlain):
            plain(value)
    endless = []
    endless.append(endless)
    with pytest.raises(NotPlain):
        plain(endless)


def test_equal_numbers_of_different_types_are_different():
    assert same([1, {"a": "b"}], [1, {"a": "b"}])
    assert not same(1, True) and not same(1, 1.0) and not same([1], [1, 2]) and not same({"a": 1}, {"b": 1})


@pytest.mark.parametrize("number", EXERCISES)
def test_every_property_has_a_hint_and_part_names_are_the_exercises_own(number):
    exercise = load_exercise(number)
    assert exercise.number == number and exercise.name.startswith(number)
    for part in exercise.parts:
        assert part.name.startswith(f"{number}.")
        assert all(prop.hints for prop in part.properties)
    assert Verdict(True).passed


# ---------------------------------------------------------------------------------- what is said of code that raises


class WithoutLocate(Chatty):
    locate = property(lambda self: self.nothing_of_that_kind)


class Halfway:
    """It can be made, and no more."""

    def __init__(self, *_):
        pass


def reaches_too_far(block_ids, block_size, start, end, pad_to=0):
    return [block_ids[position] for position in range(start, end + 99)]


def explanation(name, *objects):
    with pytest.raises(CheckFailed) as error:
        check(name, *objects)
    return str(error.value)


def test_code_that_raises_is_told_the_error_the_call_and_its_line_and_no_promise_is_blamed():
    message = explanation("03.2", reaches_too_far)
    line = reaches_too_far.__code__.co_firstlineno + 1
    assert message.startswith("Expected: no call of your code ends in an error.")
    assert "slot_mapping([" in message and "4, 2, 6) gave the error IndexError: list index out of range" in message
    assert f"(line {line} of your cell: return [block_ids[position]" in message and "traceback" in message


def test_a_missing_name_inside_a_learners_own_method_is_an_error_of_theirs():
    assert "lambda self: self.nothing_of_that_kind" in explanation("03.1", WithoutLocate)


LACKING = {
    "01.1": "reserve",
    "03.1": "__len__",
    "06.1": "blocks",
    "07.1": "get_all_free_blocks",
    "07.4": "get_new_blocks",
}


@pytest.mark.parametrize("name", LACKING)
def test_a_class_that_lacks_a_method_is_told_which(name):
    message = explanation(name, Halfway)
    assert message.startswith("Expected: the class has what the check asks it for.")
    assert f"your class Halfway lacks `{LACKING[name]}`" in message and "indented" in message


def test_where_an_error_is_asked_for_the_promise_about_it_is_blamed():
    class Wrong(Chatty):
        def locate(self, position):
            if not 0 <= position < len(self.block_ids) * self.block_size:
                raise KeyError(position)
            return super().locate(position)

    message = explanation("03.1", Wrong)
    assert message.startswith("Expected: a position outside the table raises IndexError.") and "KeyError: " in message


def test_a_cell_that_gives_nothing_back_is_told_what_is_wanted():
    class Nothing:
        def __init__(self, num_blocks):
            self.blocks = self.free_blocks = [KVCacheBlock(i) for i in range(num_blocks)]

        def allocate(self):
            return None

    assert "None came back where something with `block_id` is wanted" in explanation("06.1", Nothing)


@pytest.mark.parametrize("number", ["03", "07"])
def test_no_hint_writes_the_answer_down(number):
    words = ("remainder", "prepend_n and one append_n", "forget(block)", "ref_cnt 0", "links of None")
    hints = [hint for part in load_exercise(number).parts for prop in part.properties for hint in prop.hints]
    assert not [hint for hint in hints for word in words if word in hint]
