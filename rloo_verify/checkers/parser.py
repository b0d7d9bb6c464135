r"""Tokens -> trees, by recursive descent. Nothing is evaluated, and the depth is bounded.

relation  := ratio (('=' | '<' | 'in' | ...) ratio)* pmod?
ratio     := union (':' union)*
union     := sum (('cup' | 'cap' | 'setminus') sum)*
sum       := term (('+' | '-' | 'pm' | 'mp') term)*
term      := signed (('*' | '/' | 'otimes' | ...) signed | power)*        a factor next to a factor is a product
signed    := ('+' | '-' | 'pm' | 'mp')* power
power     := postfix ('^' script)?
postfix   := atom ('!' | '%' | degree | "'")*
"""

from rloo_verify.checkers.calculus import Calculus
from rloo_verify.checkers.lexer import tokenize
from rloo_verify.checkers.limits import MAX_DEPTH, TooComplexError, UnreadableError
from rloo_verify.checkers.matrices import determinant
from rloo_verify.checkers.nodes import Call, Matrix, Node, Num, Relation, Sym, Union, depth, product

RELATIONS = frozenset([
    "=", "!=", "<", "<=", ">", ">=", "~", "in", "notin", "cong", "subset", "subseteq", "supset", "supseteq", "propto",
    "perp", "parallel",
])  # fmt: skip
_PRODUCTS = ("oplus", "otimes", "wedge", "vee", "rtimes", "ltimes", "bullet")


def parse(text: str) -> Node:
    """Parse a normalised text that holds one statement.

    Raises:
        UnreadableError: The text is not in the grammar.
        TooComplexError: It is beyond the limits on length or nesting.
    """
    parser = _Parser(tokenize(text))
    node = parser.relation()
    parser.expect_end()
    if depth(node) > 2 * MAX_DEPTH:  # a/b/c/... nests without brackets
        raise TooComplexError(f"nested more than {2 * MAX_DEPTH} deep")
    return node


class _Parser(Calculus):
    def relation(self) -> Node:
        with self.deeper():
            sides, signs = [self._ratio()], []
            while self.at(*RELATIONS):
                signs.append(self.take().text)
                sides.append(self._ratio())
            if self.next.text == "pmod" and self.take():
                sides[-1] = Call("apply", (Sym("pmod"), sides[-1], self.group()))
            return Relation(tuple(signs), tuple(sides)) if signs else sides[0]

    def _ratio(self) -> Node:
        parts = [self._union()]
        while not self.in_description and self.accept(":"):
            parts.append(self._union())
        return Call("ratio", tuple(parts)) if len(parts) > 1 else parts[0]

    def _union(self) -> Node:
        node = self.sum()
        while (sign := self.accept("cup", "cap", "setminus")) is not None:
            other = self.sum()
            if sign == "cup":
                node = Union((*node.parts, other) if isinstance(node, Union) else (node, other))
            else:
                node = Call("setminus", (node, other)) if sign == "setminus" else _operation("cap", node, other)
        return node

    def sum(self) -> Node:
        terms = [self.term()]
        while (sign := self.accept("+", "-", "pm", "mp")) is not None:
            term = self.term()
            terms.append(term if sign == "+" else _signed(sign, term))
        return Call("+", tuple(terms)) if len(terms) > 1 else terms[0]

    def term(self) -> Node:
        node = self.signed_power()
        while True:
            if self.accept("*"):
                node = product(node, self.signed_power())
            elif self.accept("/"):
                node = Call("/", (node, self.signed_power()))
            elif (sign := self.accept(*_PRODUCTS)) is not None:
                node = _operation(sign, node, self.signed_power())
            elif self.starts_factor():
                if self.next.kind == "number" and isinstance(node, Num):
                    raise UnreadableError("two numbers side by side")
                node = product(node, self.power())
            else:
                return node

    def starts_factor(self) -> bool:
        token = self.next
        if token.kind in ("number", "letter", "name"):
            return token.text not in ("end", "pmod")
        return self.at("(", "[", "\\{", "{", "lfloor", "lceil") or (self.bars == 0 and self.at("|"))

    def signed_power(self) -> Node:
        signs = []
        while (sign := self.accept("+", "-", "pm", "mp")) is not None:
            signs.append(sign)
            if len(signs) > MAX_DEPTH:
                raise TooComplexError(f"more than {MAX_DEPTH} signs in a row")
        node = self.power()
        for sign in reversed(signs):
            node = node if sign == "+" else _signed(sign, node)
        return node

    def power(self) -> Node:
        with self.deeper():
            node = self._postfix(self.atom())
            if self.accept("^"):
                if self.accept("circ"):
                    return self._postfix(Call("deg", (node,)))
                if self._prime():
                    return self._postfix(Call("prime", (node,)))
                node = Call("^", (node, self.script()))
            return self._postfix(node)

    def _prime(self) -> bool:
        r"""Take the `{\prime}` of `f^{\prime}`."""
        braced = [token.text for token in self.tokens[self.position : self.position + 3]] == ["{", "'", "}"]
        self.position += 3 * braced
        return braced

    def _postfix(self, node: Node) -> Node:
        while True:
            if self.accept("!"):
                node = Call("!", (node,))
            elif self.accept("%"):
                node = Call("%", (node,))
                if self.starts_factor():
                    raise UnreadableError("something behind a percent sign")
            elif self.accept("'"):
                node = Call("prime", (node,))
            elif isinstance(node, Num) and self.accept("_"):  # (101)_2
                node = Call("base", (node, self.group()))
            elif self.at("^") and self.tokens[self.position + 1].text == "circ":
                self.position += 2
                node = Call("deg", (node,))
            else:
                return node

    def matrix(self) -> Node:
        self.expect("{")
        name = "".join(iter(lambda: "" if self.at("}") else self.take().text, ""))
        self.expect("}")
        if name == "array" and self.accept("{"):
            while not self.accept("}"):
                self.take()
        if "matrix" not in name and name != "array":
            raise UnreadableError(f"the environment {name} is not in the grammar")
        rows: list[tuple[Node, ...]] = []
        while self.next.text != "end":
            row = [self.relation()]
            while self.accept("&"):
                row.append(self.relation())
            rows.append(tuple(row))
            if not self.accept("\\\\"):
                break
        if self.take().text != "end":
            raise UnreadableError("a matrix that does not end")
        while not self.accept("}"):
            self.take()
        if name != "vmatrix":
            return Matrix(tuple(rows))
        value = determinant(tuple(rows))
        if value is None:
            raise UnreadableError("a determinant of more than three rows")
        return value


def _operation(sign: str, left: Node, right: Node) -> Node:
    """An operation that is known by its sign alone, and whose sides may not change places."""
    return Call("apply", (Sym(sign), left, right))


def _signed(sign: str, node: Node) -> Node:
    if sign == "-":
        return Call("neg", (node,))
    return Call("*", (Call(sign, ()), node))
