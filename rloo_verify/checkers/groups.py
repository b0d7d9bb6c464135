r"""Brackets of every kind, and LaTeX's braces: `(1, 2)`, `[0, 1)`, `\{x \mid x > 0\}`, `|x|`, `{n+1}`."""

from abc import abstractmethod
from fractions import Fraction

from rloo_verify.checkers.cursor import Cursor
from rloo_verify.checkers.lexer import Token
from rloo_verify.checkers.limits import UnreadableError
from rloo_verify.checkers.nodes import Brackets, Call, Const, Node, Num, Sym, Text
from rloo_verify.checkers.numbers import digits_to_int

_OUTERMOST = 3  # nesting that `Cursor.deeper` has counted at the first atom of a text


class Groups(Cursor):
    """The rules for brackets; atoms and the parser of operators supply the abstract ones."""

    @abstractmethod
    def relation(self) -> Node:
        """A whole statement, as it stands inside brackets."""

    @abstractmethod
    def sum(self) -> Node:
        """A sum, as it stands inside a root or a subscript."""

    @abstractmethod
    def atom(self) -> Node:
        """One thing between operators."""

    def group(self) -> Node:
        """`{...}`, LaTeX's grouping, or one token: what a command takes as its argument."""
        with self.deeper():
            if self.accept("{"):
                node = self.relation()
                self.expect("}")
                return node
            if self.next.kind == "number" and self.next.text.isdecimal() and self.next.text[1:]:  # \frac12 is one half
                token = self.next
                self.tokens[self.position] = Token("number", token.text[1:])
                return Num(Fraction(digits_to_int(token.text[0])))
            return self.atom()

    def bracketed(self, token: Token) -> Node:
        """What an opening bracket, just taken, opens."""
        if token.kind != "mark":
            raise UnreadableError(f"{token.text!r} was not expected")
        match token.text:
            case "{":  # LaTeX's grouping; or a set whose braces lost their backslashes
                items = [self.relation()]
                while self.accept(","):
                    items.append(self.relation())
                self.expect("}")
                if isinstance(items[0], Sym) and len(items) == 1 and self.at("_"):
                    return Sym(items[0].name + self.subscript())
                return items[0] if len(items) == 1 else Brackets("{", "}", tuple(items))
            case "|":
                self.bars += 1
                inside = self.sum()
                self.bars -= 1
                self.expect("|")
                return Call("abs", (inside,))
            case "lfloor" | "lceil":
                inside = self.sum()
                self.expect("rfloor", "rceil")
                return Call("floor" if token.text == "lfloor" else "ceil", (inside,))
            case "(" | "[" | "\\{":
                return self._collection(token.text)
        raise UnreadableError(f"{token.text!r} was not expected")

    def _collection(self, opening: str) -> Node:
        bars, self.bars = self.bars, int(opening == "\\{")  # in braces a bar divides: {x | x > 0}
        outside, self.in_description = self.in_description, opening == "\\{"
        items: list[Node] = []
        closings = ("\\}",) if opening == "\\{" else (")", "]")
        described = False
        if not self.at(*closings):
            items.append(self.relation())
            described = opening == "\\{" and self.accept("|", ":") is not None
            if described:
                self.bars, self.in_description = 0, False
                items.append(self.relation())
            while self.accept(",", ";") or (described and self.next.text in ("and", "for") and self.take()):
                items.append(self.relation())
        closing = self.expect(*closings)
        self.bars, self.in_description = bars, outside
        if described:
            return Brackets("{|", "}", tuple(items))
        if len(items) == 1 and opening == "(" and closing == ")":
            return items[0]
        if len(items) == 1 and (opening, closing) == ("[", "]") and self.depth > _OUTERMOST:
            return items[0]  # 2[x + 1]; but [5] alone is a list
        return Brackets(opening[-1], closing[-1], tuple(items))

    def subscript(self) -> str:
        """A subscript as part of a name; "" where there is none."""
        return "_" + written(self.group()) if self.accept("_") else ""


def written(node: Node) -> str:
    """A subscript as part of a name."""
    match node:
        case Num(value):
            return str(value)
        case Sym(name) | Const(name) | Text(name):
            return name
        case Call(name, args):
            return name + "".join(written(part) for part in args)
    raise UnreadableError("a subscript that is no name")
