r"""Grammar of sums, products, integrals and limits: `\sum_{k=1}^{n} k`, `\int_0^1 x^2 \, dx`, `\lim_{x \to 0} f(x)`."""

from abc import abstractmethod

from rloo_verify.checkers.atoms import Atoms
from rloo_verify.checkers.limits import UnreadableError
from rloo_verify.checkers.nodes import Call, Const, Node, Relation, Sym, children, product, rebuilt


class Calculus(Atoms):
    """The rules for operators that bind a variable. A tree has the variable, the limits, and what is operated on."""

    @abstractmethod
    def term(self) -> Node:
        """A product, as it stands behind an operator."""

    def calculus(self, name: str) -> Node:
        """What follows the operator's name."""
        with self.deeper():
            if name == "lim":
                return self._limit()
            if name == "int":
                return self._integral()
            self.expect("_")
            start = self.group()
            self.expect("^")
            end = self.group()
            match start:
                case Relation(("=",), (Sym() as variable, low)):
                    return Call(name, (variable, low, end, self.term()))
                case Relation(("=",), (Const("i"), low)):  # here i counts
                    return Call(name, (Sym("i"), low, end, _counting(self.term())))
        raise UnreadableError(f"a {name} without a variable that runs")

    def _limit(self) -> Node:
        self.expect("_")
        self.expect("{")
        variable = self.atom()
        self.expect("->")
        target = self.sum()
        self.expect("}")
        return Call("lim", (variable, target, self.term()))

    def _integral(self) -> Node:
        self.expect("_")
        low = self.group()
        self.expect("^")
        high = self.group()
        body = self.term()
        match body:
            case Call("*", (*factors, Sym("d"), Sym() as variable)) if factors:
                inside = factors[0]
                for factor in factors[1:]:
                    inside = product(inside, factor)
                return Call("int", (variable, low, high, inside))
        raise UnreadableError("an integral that does not end with dx")


def _counting(node: Node) -> Node:
    """The tree with the variable i in place of the imaginary unit."""
    if node == Const("i"):
        return Sym("i")
    parts = children(node)
    return rebuilt(node, [_counting(part) for part in parts]) if parts else node
