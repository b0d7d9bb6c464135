r"""The things between operators: numbers, variables, functions, matrices."""

from abc import abstractmethod
from collections.abc import Callable
from fractions import Fraction
from functools import partial

from rloo_verify.checkers.groups import Groups, written
from rloo_verify.checkers.lexer import ACCENTS, CALCULUS, FUNCTIONS, Token
from rloo_verify.checkers.limits import UnreadableError
from rloo_verify.checkers.nodes import Brackets, Call, Const, Node, Num, Sym, Text, product
from rloo_verify.checkers.numbers import digits_to_int

_ANY_NUMBER = frozenset(["min", "max", "gcd", "lcm"])
_APPLIED = frozenset("fghFGHPQTWp")
_NAMES = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "ln": "log", "factorial": "!"}


class Atoms(Groups):
    """The rules for atoms; the parser of operators supplies the abstract ones."""

    @abstractmethod
    def signed_power(self) -> Node:
        """A factor with its sign and exponent, as it stands after a function's name."""

    @abstractmethod
    def power(self) -> Node:
        """A factor with its exponent."""

    @abstractmethod
    def calculus(self, name: str) -> Node:
        """What follows the name of a sum, product, integral or limit."""

    @abstractmethod
    def matrix(self) -> Node:
        """What follows the word begin."""

    @abstractmethod
    def starts_factor(self) -> bool:
        """Whether the next token starts a factor."""

    def script(self) -> Node:
        """An exponent: `{...}`, or one signed factor; `x^10` is taken for what its author means; `A^*` is a name."""
        if self.accept("*"):
            return Sym("*")
        if self.at("{"):
            if self.tokens[self.position + 1].text == "*" and self.tokens[self.position + 2].text == "}":
                self.position += 3
                return Sym("*")
            return self.group()
        return self.signed_power()

    def atom(self) -> Node:
        """One thing between operators."""
        with self.deeper():
            token = self.take()
            match token.kind:
                case "number":
                    return self._number(token)
                case "letter":
                    return self._symbol(token)
                case "text":
                    return Text(token.text)
                case "name":
                    return self._named(token.text)
            return self.bracketed(token)

    def _number(self, token: Token) -> Node:
        whole, _, decimals = token.text.partition(".")
        value = Fraction(digits_to_int((whole + decimals) or "0"), 10 ** len(decimals))
        if "." in token.text and (self.next.text in ("overline", "dot") or token.text.endswith(".")):
            return self._repeating(value, len(decimals))
        if self.at("_"):
            self.take()
            return Call("base", (Num(value), self.group()))
        if "." not in token.text:
            mixed = self._mixed(value)
            if mixed is not None:
                return mixed
        return Num(value, len(decimals) if "." in token.text else None)

    def _repeating(self, value: Fraction, places: int) -> Node:
        r"""`0.1\overline{6}`, `0.1\dot{6}`, `0.1(6)`: the digits that repeat."""
        self.accept("(") or (self.take() and self.expect("{"))
        digits = self.take().text
        self.expect("}", ")")
        if not digits.isdecimal():
            raise UnreadableError("a bar over something else than digits")
        return Num(value + Fraction(digits_to_int(digits), (10 ** len(digits) - 1) * 10**places))

    def _mixed(self, whole: Fraction) -> Node | None:
        r"""`2\frac{1}{2}` and `2 1/2`: a proper fraction right after an integer is added to it."""
        start = self.position
        fraction: Node | None = None
        if self.next.text == "frac":
            fraction = self.atom()
        elif self.next.kind == "number" and self.next.spaced and self.tokens[start + 1].text == "/":
            numerator, _, denominator = self.take(), self.take(), self.take()
            if numerator.text.isdecimal() and denominator.text.isdecimal():
                parts = [Num(Fraction(digits_to_int(part.text))) for part in (numerator, denominator)]
                fraction = Call("/", tuple(parts))
        if isinstance(fraction, Call) and fraction.name == "/":
            n, d = fraction.args
            if isinstance(n, Num) and isinstance(d, Num) and 0 < n.value < d.value and n.places is d.places is None:
                return Num(whole + n.value / d.value)
        self.position = start
        return None

    def _symbol(self, token: Token) -> Node:
        name = token.text + self.subscript()
        if name in ("e", "i"):
            return Const(name)
        if name[0] in _APPLIED and self.at("(") and not self.next.spaced:
            arguments = self.atom()
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
            "frac": lambda: Call("/", (self.group(), self.group())),
            "begin": self.matrix,
            "emptyset": lambda: Brackets("{", "}", ()),
            "mathbb": self._blackboard,
            **{accent: partial(self._accented, accent) for accent in ACCENTS},
            **{operator: partial(self.calculus, operator) for operator in CALCULUS},
            "angle": lambda: Call("angle", (self.power(),)),
            "triangle": lambda: Call("angle", (self.power(),)),
        }
        if name not in rules:
            raise UnreadableError(f"{name} was not expected")
        return rules[name]()

    def _accented(self, accent: str) -> Node:
        """A letter with a hat, bar or arrow, or in another alphabet, is a variable of its own."""
        return Sym(f"\\{accent}{{{written(self.group())}}}{self.subscript()}")

    def _blackboard(self) -> Node:
        r"""A set of numbers; with a subscript, `\mathbb{Z}_8`, a name."""
        letter, subscript = written(self.group()), self.subscript()
        return Sym(f"\\mathbb{{{letter}}}{subscript}") if subscript else Text(letter)

    def _function(self, name: str) -> Node:
        name = _NAMES.get(name, name)
        if name == "binom" and not self.at("("):
            return Call("binom", (self.group(), self.group()))
        if name == "sqrt":
            return self._root()
        if name == "cbrt":
            return Call("root", (*self._arguments(), Num(Fraction(3))))
        base = self.group() if name == "log" and self.accept("_") else None
        power = self.script() if self.accept("^") else None
        arguments = self._arguments()
        if len(arguments) != (2 if name == "binom" else 1) and name not in _ANY_NUMBER:
            raise UnreadableError(f"{name} of {len(arguments)} arguments")
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
        if self.accept("["):
            degree = self.sum()
            self.expect("]")
        inside = self.group() if self.at("{") else self.atom()
        return Call("sqrt", (inside,)) if degree is None else Call("root", (inside, degree))

    def _arguments(self) -> tuple[Node, ...]:
        r"""`(x, y)`, or without brackets the factors up to the next sign or function: `\sin 2x \cos x`."""
        if self.at("(", "{"):
            inside = self.atom() if self.at("(") else self.group()  # sin(x)^2 is the square of sin(x)
            return inside.items if isinstance(inside, Brackets) else (inside,)
        node = self.signed_power()
        while self.starts_factor() and self.next.text not in FUNCTIONS and not self.at("(", "["):
            node = product(node, self.power())
        return (node,)
