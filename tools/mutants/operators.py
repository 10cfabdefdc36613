"""The mutants of a piece of source: those of mutmut's operators, and what these lack.

mutmut changes one node at a time: operators, comparisons, constants, arguments dropped, values assigned. Besides:
comparisons and constants the other way, conditions turned and settled, two neighbours swapped (arguments, statements,
what is returned), statements dropped, copies that are none (``list(x)`` → ``x``), slices without an end, names taken
for others of the same function, methods taken for their siblings.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator

import libcst as cst
from libcst import matchers as m
from libcst.metadata import MetadataWrapper, PositionProvider
from mutmut.mutation.mutators import mutation_operators

Nodes = Iterable[cst.CSTNode]
Lines = Iterable[range]  # of the source, counted from 1

COMPARISONS = (cst.LessThan, cst.LessThanEqual, cst.GreaterThan, cst.GreaterThanEqual, cst.Equal, cst.NotEqual)
COPIES = ("list", "dict", "set", "tuple", "sorted", "reversed", "copy", "deepcopy", "int", "clone")
SIBLINGS = {"min": "max", "max": "min", "any": "all", "all": "any", "append": "extend", "extend": "append"}
SIBLINGS |= {"values": "keys", "keys": "values", "floor": "ceil", "ceil": "floor", "maximum": "minimum"}


def mutants(source: str, lines: Lines) -> Iterator[str]:
    """Every mutant of ``source`` that changes something in ``lines`` alone, once; those that are no Python left out."""
    module = cst.parse_module(source)
    wrapper = MetadataWrapper(module, unsafe_skip_copy=True)
    positions = wrapper.resolve(PositionProvider)
    wanted = [line for some in lines for line in some]
    seen = {ast.dump(ast.parse(source))}
    for node, new in _changes(module, lambda n: n in positions and positions[n].start.line in wanted):
        try:
            code = module.with_deep_changes(node, **new).code if isinstance(new, dict) else (
                module.deep_replace(node, new).code)  # fmt: skip
            tree = ast.dump(ast.parse(code))
        except Exception:  # libcst refuses what it cannot write, Python what it cannot read
            continue
        if tree not in seen:
            seen.add(tree)
            yield code


def _changes(module: cst.Module, wanted: Callable[[cst.CSTNode], bool]) -> Iterator[tuple[cst.CSTNode, object]]:
    for node, names in _walk(module, ()):
        for statements in ("body", "orelse"):
            yield from _of_block(node, statements, wanted)
        if not wanted(node) or m.matches(node, m.Raise() | m.Expr(value=m.SimpleString())):
            continue
        for kind, operator in mutation_operators:
            if isinstance(node, kind):
                yield from ((node, new) for new in operator(node))
        for kind, own in OWN:
            if isinstance(node, kind):
                yield from ((node, new) for new in own(node))
        yield from _other_names(node, names)


def _walk(node: cst.CSTNode, names: tuple[str, ...]) -> Iterator[tuple[cst.CSTNode, tuple[str, ...]]]:
    """Each node with the names that its function has of its own. What a ``raise`` says is nobody's business, and who is
    given a value stays."""
    if isinstance(node, cst.FunctionDef):
        targets = m.findall(node.body, m.AssignTarget() | m.For() | m.CompFor())
        found = [param.name for param in m.findall(node.params, m.Param())]
        found += [name for target in targets for name in _bound(target.target)]
        names = tuple(dict.fromkeys([*names, *(n.value for n in found if n.value not in ("self", "_"))]))
    yield node, names
    if isinstance(node, cst.Raise):
        return
    for child in node.children:
        yield from _walk(child, () if child is getattr(node, "target", None) else names)


def _bound(target: cst.BaseExpression) -> list[cst.Name]:
    """The names that an assignment to ``target`` gives a value to."""
    if isinstance(target, cst.Tuple):
        return [name for element in target.elements for name in _bound(element.value)]
    return [target] if isinstance(target, cst.Name) else []


def _other_names(node: cst.CSTNode, names: tuple[str, ...]) -> Iterator[tuple[cst.CSTNode, cst.CSTNode]]:
    """Each name that ``node`` reads, taken for each other one of its function."""
    for field in type(node).__dataclass_fields__:
        name = getattr(node, field)
        if field in ("attr", "keyword", "target", "name", "asname") or not isinstance(name, cst.Name):
            continue
        if name.value in names:
            yield from ((name, cst.Name(other)) for other in names if other != name.value)


def _of_block(node: cst.CSTNode, field: str, wanted: Callable) -> Iterator[tuple[cst.CSTNode, dict]]:
    """Each statement of a block dropped, and each two neighbours swapped."""
    body = getattr(node, field, None)
    if not isinstance(body, (list, tuple)) or not all(isinstance(b, cst.BaseStatement) for b in body):
        return
    for i, statement in enumerate(body):
        if not wanted(statement):
            continue
        gap = cst.SimpleStatementLine([cst.Pass()])
        yield node, {field: [*body[:i], gap, *body[i + 1 :]]}
        if i + 1 < len(body) and wanted(body[i + 1]) and not _independent(statement, body[i + 1]):
            yield node, {field: [*body[:i], body[i + 1], statement, *body[i + 2 :]]}


def _independent(*two: cst.BaseStatement) -> bool:
    """Whether both give a value to a name, without a method's help, and neither reads or writes the other's."""
    if not all(m.matches(one, m.SimpleStatementLine(body=[m.Assign() | m.AugAssign()])) for one in two):
        return False
    if any(m.findall(one, m.Call(func=m.Attribute())) for one in two):
        return False
    targets = [m.findall(one, m.AssignTarget()) or [one.body[0]] for one in two]
    bound = [{n.value for target in some for n in _bound(target.target)} for some in targets]
    named = [{n.value for n in m.findall(one, m.Name())} for one in two]
    return all(bound) and not (bound[0] & named[1] or bound[1] & named[0])


def _number(node: cst.Integer) -> Nodes:
    for value in {node.evaluated_value - 1, 0} - {node.evaluated_value}:
        yield cst.Integer(str(value)) if value >= 0 else cst.parse_expression(f"({value})")


def _comparison(node: cst.ComparisonTarget) -> Nodes:
    if isinstance(node.operator, COMPARISONS):
        for other in COMPARISONS:
            if other is not type(node.operator):
                yield node.with_changes(operator=other())


def _operator(node: cst.BinaryOperation) -> Nodes:
    others = (cst.Add, cst.Subtract, cst.Multiply, cst.FloorDivide, cst.Modulo)
    for other in others:
        if isinstance(node.operator, others) and other is not type(node.operator):
            yield node.with_changes(operator=other())
    yield node.left
    yield node.right


def _condition(node: cst.If | cst.While | cst.IfExp | cst.CompIf) -> Nodes:
    inside = node.test.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    tests = [cst.UnaryOperation(cst.Not(), inside), cst.Name("True"), cst.Name("False")]
    for test in tests:
        yield node.with_changes(test=test)


def _either(node: cst.BooleanOperation) -> Nodes:
    yield node.left
    yield node.right


def _call(node: cst.Call) -> Nodes:
    args, name = node.args, getattr(node.func, "attr", node.func)
    for i in range(len(args) - 1):
        if not any(arg.keyword or arg.star for arg in args[i : i + 2]):
            yield node.with_changes(args=[*args[:i], args[i + 1], args[i], *args[i + 2 :]])
    if m.matches(node.func, m.Name()) and name.value in COPIES and args:
        yield args[0].value
    if m.matches(node.func, m.Attribute()):
        if name.value in COPIES:
            yield args[0].value if args else node.func.value
        if name.value in ("to", "sum", "item", "tolist"):
            yield node.func.value
        if name.value == "pop":
            yield node.with_changes(args=[] if args else [cst.Arg(cst.Integer("0"))])
    if m.matches(name, m.Name()) and name.value in SIBLINGS:
        yield node.with_deep_changes(name, value=SIBLINGS[name.value])


def _subscript(node: cst.Subscript) -> Nodes:
    for element in node.slice:
        if isinstance(element.slice, cst.Slice):
            ends = [end for end in ("lower", "upper") if getattr(element.slice, end)]
            yield from (node.with_deep_changes(element.slice, **{end: None}) for end in ends)
            yield node.value


def _list(node: cst.List) -> Nodes:
    if len(node.elements) == 1 and isinstance(node.elements[0], cst.StarredElement):
        yield node.elements[0].value
    else:
        yield from _row(node)


def _row(node: cst.List | cst.Tuple) -> Nodes:
    """Neighbours swapped; one left out."""
    row = node.elements
    for i in range(len(row) - 1):
        yield node.with_changes(elements=[*row[:i], row[i + 1], row[i], *row[i + 2 :]])
    for i in range(len(row)):
        yield node.with_changes(elements=[*row[:i], *row[i + 1 :]])


def _returned(node: cst.Return) -> Nodes:
    for value in ("None", "0", "[]", "False"):
        yield node.with_changes(
            value=cst.parse_expression(value), whitespace_after_return=cst.SimpleWhitespace(" ")
        )


def _loop_left(node: cst.Break | cst.Continue) -> Nodes:
    yield cst.Pass()


def _filter(node: cst.CompFor) -> Nodes:
    if node.ifs:
        yield node.with_changes(ifs=node.ifs[1:])


OWN: list[tuple[type | tuple, Callable[..., Nodes]]] = [
    (cst.Integer, _number),
    (cst.ComparisonTarget, _comparison),
    (cst.BinaryOperation, _operator),
    ((cst.If, cst.While, cst.IfExp, cst.CompIf), _condition),
    (cst.BooleanOperation, _either),
    (cst.Call, _call),
    (cst.Subscript, _subscript),
    (cst.List, _list),
    (cst.Tuple, _row),
    (cst.Return, _returned),
    ((cst.Break, cst.Continue), _loop_left),
    (cst.CompFor, _filter),
]
