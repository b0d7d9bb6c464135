r"""Tokens -> trees, by recursive descent. Nothing is evaluated, and the depth is bounded.

    relation  := ratio (('=' | '<' | 'in' | ...) ratio)*
    ratio     := union (':' union)*
    union     := sum ('cup' sum)*
    sum       := term (('+' | '-' | 'pm' | 'mp') term)*
    term      := signed (('*' | '/') signed | power)*        a factor next to a factor is a product
    signed    := ('+' | '-' | 'pm' | 'mp')* power
    power     := postfix ('^' script)?
    postfix   := atom ('!' | '%' | degree | "'")*
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction

from rloo_verify.checkers.lexer import END, FUNCTIONS, Token, tokenize
from rloo_verify.checkers.limits import MAX_DEPTH, TooComplexError, UnreadableError
from rloo_verify.checkers.nodes import Brackets, Call, Const, Matrix, Node, Num, Relation, Sym, Text, Union, depth
from rloo_verify.checkers.numbers import digits_to_int

RELATIONS = frozenset(["=", "!=", "<", "<=", ">", ">=", "~", "in"])
_APPLIED = frozenset("fghFGHPQTWp")
_CLOSING = {"(": ")", "[": "]", "\\{": "\\}"}
_NAMES = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "ln": "log", "factorial": "!"}


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


class _Parser:
    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._position = 0
        self._depth = 0
        self._bars = 0

    @property
    def _next(self) -> Token:
        return self._tokens[self._position]

    def _take(self) -> Token:
        token = self._next
        if token is END:
            raise UnreadableError("it ends too early")
        self._position += 1
        return token

    def _at(self, *marks: str) -> bool:
        return self._next.kind == "mark" and self._next.text in marks

    def _accept(self, *marks: str) -> str | None:
        return self._take().text if self._at(*marks) else None

    def _expect(self, *marks: str) -> str:
        if not self._at(*marks):
            raise UnreadableError(f"{' or '.join(marks)} expected, not {self._next.text or 'the end'!r}")
        return self._take().text

    def expect_end(self) -> None:
        if self._next is not END:
            raise UnreadableError(f"{self._next.text!r} was not expected")

    @contextmanager
    def _deeper(self) -> Iterator[None]:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise TooComplexError(f"nested more than {MAX_DEPTH} deep")
        yield
        self._depth -= 1

    def relation(self) -> Node:
        with self._deeper():
            sides, signs = [self._ratio()], []
            while self._at(*RELATIONS):
                signs.append(self._take().text)
                sides.append(self._ratio())
            return Relation(tuple(signs), tuple(sides)) if signs else sides[0]

    def _ratio(self) -> Node:
        parts = [self._union()]
        while self._accept(":"):
            parts.append(self._union())
        return Call("ratio", tuple(parts)) if len(parts) > 1 else parts[0]

    def _union(self) -> Node:
        parts = [self._sum()]
        while self._accept("cup"):
            parts.append(self._sum())
        return Union(tuple(parts)) if len(parts) > 1 else parts[0]

    def _sum(self) -> Node:
        terms = [self._term()]
        while (sign := self._accept("+", "-", "pm", "mp")) is not None:
            term = self._term()
            terms.append(term if sign == "+" else _signed(sign, term))
        return Call("+", tuple(terms)) if len(terms) > 1 else terms[0]

    def _term(self) -> Node:
        node = self._signed_power()
        while True:
            if self._accept("*"):
                node = _product(node, self._signed_power())
            elif self._accept("/"):
                node = Call("/", (node, self._signed_power()))
            elif self._starts_factor():
                if self._next.kind == "number" and isinstance(node, Num):
                    raise UnreadableError("two numbers side by side")
                node = _product(node, self._power())
            else:
                return node

    def _starts_factor(self) -> bool:
        token = self._next
        if token.kind in ("number", "letter", "name"):
            return token.text != "end"
        return self._at("(", "[", "\\{", "{", "lfloor", "lceil") or (self._bars == 0 and self._at("|"))

    def _signed_power(self) -> Node:
        signs = []
        while (sign := self._accept("+", "-", "pm", "mp")) is not None:
            signs.append(sign)
            if len(signs) > MAX_DEPTH:
                raise TooComplexError(f"more than {MAX_DEPTH} signs in a row")
        node = self._power()
        for sign in reversed(signs):
            node = node if sign == "+" else _signed(sign, node)
        return node

    def _power(self) -> Node:
        with self._deeper():
            node = self._postfix(self._atom())
            if self._accept("^"):
                if self._accept("circ"):
                    return self._postfix(Call("deg", (node,)))
                node = Call("^", (node, self._script()))
            return self._postfix(node)

    def _script(self) -> Node:
        """An exponent: `{...}`, or one signed factor; `x^10` is taken for what its author means."""
        if self._at("{"):
            return self._group()
        return self._signed_power()

    def _postfix(self, node: Node) -> Node:
        while True:
            if self._accept("!"):
                node = Call("!", (node,))
            elif self._accept("%"):
                node = Call("%", (node,))
            elif self._accept("'"):
                node = Call("prime", (node,))
            elif self._at("^") and self._tokens[self._position + 1].text == "circ":
                self._position += 2
                node = Call("deg", (node,))
            else:
                return node

    def _group(self) -> Node:
        """`{...}`, LaTeX's grouping, or one token: what a command takes as its argument."""
        with self._deeper():
            if self._accept("{"):
                node = self.relation()
                self._expect("}")
                return node
            if self._next.kind == "number" and len(self._next.text) > 1:  # \frac12 is one half
                token = self._next
                self._tokens[self._position] = Token("number", token.text[1:])
                return Num(Fraction(digits_to_int(token.text[0])))
            return self._atom()

    def _atom(self) -> Node:
        with self._deeper():
            token = self._take()
            match token.kind:
                case "number":
                    return self._number(token)
                case "letter":
                    return self._symbol(token)
                case "text":
                    return Text(token.text)
                case "name":
                    return self._named(token.text)
            return self._bracketed(token)

    def _number(self, token: Token) -> Node:
        whole, _, decimals = token.text.partition(".")
        value = Fraction(digits_to_int((whole + decimals) or "0"), 10 ** len(decimals))
        if self._next.text == "overline" and "." in token.text:
            self._take()
            return self._repeating(value, len(decimals))
        if self._at("_"):
            self._take()
            return Call("base", (Num(value), self._group()))
        if "." not in token.text:
            mixed = self._mixed(value)
            if mixed is not None:
                return mixed
        return Num(value, len(decimals) if "." in token.text else None)

    def _repeating(self, value: Fraction, places: int) -> Node:
        """`0.1\\overline{6}`: the bar covers the digits that repeat."""
        self._expect("{")
        digits = self._take().text
        self._expect("}")
        if not digits.isdecimal():
            raise UnreadableError("a bar over something else than digits")
        return Num(value + Fraction(digits_to_int(digits), (10 ** len(digits) - 1) * 10**places))

    def _mixed(self, whole: Fraction) -> Node | None:
        """`2\\frac{1}{2}` and `2 1/2`: a proper fraction right after an integer is added to it."""
        start = self._position
        fraction: Node | None = None
        if self._next.text == "frac":
            fraction = self._atom()
        elif self._next.kind == "number" and self._next.spaced and self._tokens[start + 1].text == "/":
            numerator, _, denominator = self._take(), self._take(), self._take()
            if denominator.kind == "number":
                fraction = Call("/", (_integer(numerator), _integer(denominator)))
        if isinstance(fraction, Call) and fraction.name == "/":
            n, d = fraction.args
            if isinstance(n, Num) and isinstance(d, Num) and 0 < n.value < d.value and n.places is d.places is None:
                return Num(whole + n.value / d.value)
        self._position = start
        return None

    def _symbol(self, token: Token) -> Node:
        name = token.text
        if self._accept("_"):
            name += "_" + _written(self._group())
        if name in ("e", "i"):
            return Const(name)
        if name[0] in _APPLIED and self._at("(") and not self._next.spaced:
            arguments = self._atom()
            items = arguments.items if isinstance(arguments, Brackets) else (arguments,)
            return Call("apply", (Sym(name), *items))
        return Sym(name)

    def _named(self, name: str) -> Node:
        if name in ("infty", "infinity", "inf", "oo"):
            return Const("oo")
        if name in FUNCTIONS:
            return self._function(name)
        rules: dict[str, Callable[[], Node]] = {
            "pi": lambda: Const("pi"),
            "frac": lambda: Call("/", (self._group(), self._group())),
            "begin": self._matrix,
            "emptyset": lambda: Brackets("{", "}", ()),
            "mathbb": lambda: Text(_written(self._group())),
            "angle": lambda: Call("angle", (self._power(),)),
            "triangle": lambda: Call("angle", (self._power(),)),
        }
        if name not in rules:
            raise UnreadableError(f"{name} was not expected")
        return rules[name]()

    def _function(self, name: str) -> Node:
        name = _NAMES.get(name, name)
        if name == "binom":
            return Call("binom", (self._group(), self._group()) if self._at("{") else self._arguments())
        if name == "sqrt":
            return self._root()
        base = self._group() if name == "log" and self._accept("_") else None
        power = self._script() if self._accept("^") else None
        arguments = self._arguments()
        if name == "lg":
            name, base = "log", Num(Fraction(10))
        node: Node = Call(name, (*arguments, base) if base is not None else arguments)
        if power is None:
            return node
        if power == Call("neg", (Num(Fraction(1)),)):
            return Call("arc" + name, arguments)
        return Call("^", (node, power))

    def _root(self) -> Node:
        degree: Node | None = None
        if self._accept("["):
            degree = self._sum()
            self._expect("]")
        inside = self._group() if self._at("{") else self._atom()
        return Call("sqrt", (inside,)) if degree is None else Call("root", (inside, degree))

    def _arguments(self) -> tuple[Node, ...]:
        r"""`(x, y)`, or without brackets the factors up to the next sign or function: `\sin 2x \cos x`."""
        if self._at("(", "{"):
            inside = self._power() if self._at("(") else self._group()
            return inside.items if isinstance(inside, Brackets) else (inside,)
        node = self._signed_power()
        while self._starts_factor() and self._next.text not in FUNCTIONS and not self._at("(", "["):
            node = _product(node, self._power())
        return (node,)

    def _bracketed(self, token: Token) -> Node:
        if token.kind != "mark":
            raise UnreadableError(f"{token.text!r} was not expected")
        match token.text:
            case "{":  # LaTeX's grouping; or a set whose braces lost their backslashes
                items = [self.relation()]
                while self._accept(","):
                    items.append(self.relation())
                self._expect("}")
                return items[0] if len(items) == 1 else Brackets("{", "}", tuple(items))
            case "|":
                self._bars += 1
                inside = self._sum()
                self._bars -= 1
                self._expect("|")
                return Call("abs", (inside,))
            case "lfloor" | "lceil":
                inside = self._sum()
                self._expect("rfloor", "rceil")
                return Call("floor" if token.text == "lfloor" else "ceil", (inside,))
            case "(" | "[" | "\\{":
                return self._collection(token.text)
        raise UnreadableError(f"{token.text!r} was not expected")

    def _collection(self, opening: str) -> Node:
        bars, self._bars = self._bars, 0
        items: list[Node] = []
        closings = ("\\}",) if opening == "\\{" else (")", "]")
        if not self._at(*closings):
            items.append(self.relation())
            while self._accept(",", ";"):
                items.append(self.relation())
        closing = self._expect(*closings)
        self._bars = bars
        if len(items) == 1 and opening == "(" and closing == ")":
            return items[0]
        if len(items) == 1 and opening == "[" and closing == "]" and self._depth > 3:
            return items[0]
        return Brackets(opening[-1], closing[-1], tuple(items))

    def _matrix(self) -> Node:
        self._expect("{")
        name = "".join(iter(lambda: "" if self._at("}") else self._take().text, ""))
        self._expect("}")
        if name == "array" and self._accept("{"):
            while not self._accept("}"):
                self._take()
        if "matrix" not in name and name != "array":
            raise UnreadableError(f"the environment {name} is not in the grammar")
        rows: list[tuple[Node, ...]] = []
        while self._next.text != "end":
            row = [self.relation()]
            while self._accept("&"):
                row.append(self.relation())
            rows.append(tuple(row))
            if not self._accept("\\\\"):
                break
        if self._take().text != "end":
            raise UnreadableError("a matrix that does not end")
        while not self._accept("}"):
            self._take()
        determinant = name == "vmatrix"
        return Call("det", (Matrix(tuple(rows)),)) if determinant else Matrix(tuple(rows))


def _integer(token: Token) -> Num:
    if "." in token.text:
        return Num(Fraction(0), 1)
    return Num(Fraction(digits_to_int(token.text)))


def _signed(sign: str, node: Node) -> Node:
    if sign == "-":
        return Call("neg", (node,))
    return Call("*", (Call(sign, ()), node))


def _product(left: Node, right: Node) -> Node:
    if isinstance(left, Call) and left.name == "*":
        return Call("*", (*left.args, right))
    return Call("*", (left, right))


def _written(node: Node) -> str:
    """A subscript as part of a name."""
    match node:
        case Num(value):
            return str(value)
        case Sym(name) | Const(name) | Text(name):
            return name
        case Call(name, args):
            return name + "".join(_written(part) for part in args)
    raise UnreadableError("a subscript that is no name")
