r"""Sets that are described, not listed: `\{x \mid x = 3k, k \in \mathbb{Z}\}` is `\{3k : k \in \mathbb{Z}\}`.

Both are brought to one form, a rule for the members and conditions on the variables in it, and compared part by part;
the names of bound variables do not count.
"""

from collections.abc import Callable

from rloo_verify.checkers.nodes import Brackets, Node, Relation, Sym, Text, substituted, symbols

Equal = Callable[[Node, Node], bool]


def described_equal(reference: Brackets, answer: Brackets, equal: Equal) -> bool:
    """Whether two descriptions say the same, part by part; doubt is inequality."""
    (ours, ours_conditions), (theirs, their_conditions) = _plain(reference), _plain(answer)
    if len(ours_conditions) != len(their_conditions) or not equal(ours, theirs):
        return False
    left = list(their_conditions)
    for condition in ours_conditions:
        same = next((other for other in left if equal(condition, other)), None)
        if same is None:
            return False
        left.remove(same)
    return True


def _plain(description: Brackets) -> tuple[Node, list[Node]]:
    """The rule for the members and the conditions, with variables renamed in order of appearance."""
    rule, *conditions = description.items
    if isinstance(rule, Relation) and rule.signs == ("in",):
        conditions, rule = [rule, *conditions], rule.sides[0]
    for condition in conditions:
        match condition:
            case Relation(("=",), (Sym() as left, right)) if left == rule:
                rule = right
                conditions = [other for other in conditions if other is not condition]
                break
    bound = [
        condition.sides[0].name
        for condition in conditions
        if isinstance(condition, Relation) and condition.signs == ("in",) and isinstance(condition.sides[0], Sym)
    ]
    bound += sorted(symbols(rule) - set(bound)) if isinstance(rule, Sym) else []
    for index, name in enumerate(bound):
        fresh = Sym(f"bound {index}")
        rule = substituted(rule, name, fresh)
        conditions = [substituted(condition, name, fresh) for condition in conditions]
    real = Relation(("in",), (rule, Text("R")))  # what everybody assumes
    return rule, [condition for condition in conditions if condition != real]
