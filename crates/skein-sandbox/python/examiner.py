"""The tests' process: runs assertions here, while the answer runs in another process that sees arguments alone.

Names under test become handles that send plain arguments and get plain values back, so every comparison with an expected
result happens where the answer has no say. The verdict goes to a pipe that the answer's process does not hold, and only
the end of the tests, reached, is a pass.
"""

TESTS, REPLIES, REQUESTS, VERDICT = 3, 4, 5, 6
STARTED = b"R"


class Gone(BaseException):
    """The answer's process ended or broke the form. Not an Exception, so that no test takes it for an expected one."""


class Unusable(BaseException):
    """No answer could be judged by these tests."""


class Unstarted(BaseException):
    """The answer's process ended before it read the answer."""


class AnswerError(Exception):
    """An exception of a class that only the answer knows."""


class Peer:
    """The answer's process."""

    def __init__(self):
        self.channel = Channel(REPLIES, REQUESTS)
        self.uses = 0
        self.assisted = False
        self.unusable = None
        self.gone = None

    def greet(self):
        """Waits for the byte that the answer's process sends before it reads the answer."""
        if posix.read(REPLIES, 1) != STARTED:
            raise Unstarted

    def ask(self, operation, *operands):
        if self.gone:
            raise Gone(self.gone)
        request = encode((operation,) + operands, self.number)
        try:
            self.channel.send(request)
            reply = decode(self.channel.receive(), lambda number: Handle(self, number))
            kind, value, detail = reply
        except (OSError, EOFError, ValueError, TypeError, RecursionError, MemoryError) as error:
            self.gone = "%s: %s" % (type(error).__name__, error)
            raise Gone(self.gone) from None
        if kind == "raised":
            error = exception_of(value, detail)
            error.raised_by_answer = True
            raise error
        return value, detail

    def number(self, item):
        if type(item) is Handle:
            return object.__getattribute__(item, "_number")
        self.unusable = "they pass an object of type %s to the answer" % type(item).__name__
        raise Unusable(self.unusable)

    def name(self, name):
        return self.ask("name", name)[0]

    def call(self, target, arguments, keywords):
        self.uses += 1
        value, changes = self.ask("call", target, arguments, keywords)
        for index, changed in changes:
            renew(arguments[index], changed)
        return value

    def assist(self, operation, *operands):
        self.assisted = True
        return self.ask(operation, *operands)[0]


def exception_of(names, text):
    """The nearest built-in exception. One that ends loops silently would let an answer skip tests by raising it."""
    for name in names:
        known = getattr(builtins, name, None) if isinstance(name, str) else None
        if isinstance(known, type) and issubclass(known, Exception):
            if issubclass(known, (StopIteration, StopAsyncIteration)):
                return RuntimeError(text)
            try:
                return known(text)
            except TypeError:
                pass
    return AnswerError(text)


def renew(argument, changed):
    """Gives an argument that the answer changed in place its new content."""
    if isinstance(argument, (list, bytearray)):
        argument[:] = changed
    elif isinstance(argument, (dict, set)):
        argument.clear()
        argument.update(changed)


class Handle:
    """An object that stays in the answer's process.

    It equals no plain value, and no arithmetic or containment is asked of it: there an answer would see what is expected
    of it, or could claim it.
    """

    __slots__ = ("_peer", "_number")

    def __init__(self, peer, number):
        object.__setattr__(self, "_peer", peer)
        object.__setattr__(self, "_number", number)

    def __call__(self, *arguments, **keywords):
        return self._peer.call(self, arguments, keywords)

    def __getattr__(self, name):
        if name.startswith("__") and name not in ("__name__", "__doc__"):
            raise AttributeError(name)
        return self._peer.ask("get", self, name)[0]

    def __setattr__(self, name, value):
        self._peer.ask("set", self, name, value)

    def __getitem__(self, key):
        return self._peer.assist("item", self, key)

    def __setitem__(self, key, value):
        self._peer.assist("put", self, key, value)

    def __len__(self):
        return self._peer.assist("len", self)

    def __bool__(self):
        return self._peer.assist("bool", self)

    def __str__(self):
        return self._peer.assist("str", self)

    def __repr__(self):
        return self._peer.assist("repr", self)

    def __iter__(self):
        iterator = self._peer.assist("iter", self)
        return iterator if type(iterator) is Handle else iter(iterator)

    def __next__(self):
        more, item = self._peer.assist("next", self)
        if more is not True:
            raise StopIteration
        return item

    def __hash__(self):
        return hash(self._number)

    def _compare(self, relation, other, otherwise):
        if type(other) is not Handle:
            return otherwise
        return self._peer.assist("compare", relation, self, other) is True

    def __eq__(self, other):
        return self._compare("eq", other, False)

    def __ne__(self, other):
        return self._compare("ne", other, True)

    def __lt__(self, other):
        return self._compare("lt", other, NotImplemented)

    def __le__(self, other):
        return self._compare("le", other, NotImplemented)

    def __gt__(self, other):
        return self._compare("gt", other, NotImplemented)

    def __ge__(self, other):
        return self._compare("ge", other, NotImplemented)


def parsed(source):
    try:
        return compile(source, "tests.py", "exec", 0x400, dont_inherit=True)  # ast.PyCF_ONLY_AST, without importing ast
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise Unusable("they are not Python: %s" % error) from None


def children(node):
    for field in node._fields:
        value = getattr(node, field, None)
        for child in value if isinstance(value, list) else [value]:
            if hasattr(child, "_fields"):
                yield child


def nodes(tree):
    pending = [tree]
    while pending:
        node = pending.pop()
        yield node
        pending.extend(children(node))


def kind(node):
    return type(node).__name__


def bound_names(tree):
    """Names that are given a meaning anywhere in a tree."""
    names = set()
    for node in nodes(tree):
        if kind(node) == "Name" and kind(node.ctx) != "Load":
            names.add(node.id)
        elif kind(node) == "arg":
            names.add(node.arg)
        elif kind(node) == "alias":
            names.add((node.asname or node.name).split(".")[0])
        elif isinstance(getattr(node, "name", None), str):
            names.add(node.name)
    return names


def top_level_names(tree):
    """Names that a module defines itself, without what its functions bind inside or what it imports."""
    names = set()
    for node in tree.body:
        if kind(node) in ("FunctionDef", "AsyncFunctionDef", "ClassDef"):
            names.add(node.name)
        elif kind(node) in ("Assign", "AnnAssign"):
            names |= bound_names(node)
    return names


class Plan:
    """Which of the tests' free names are under test, and where each other one comes from."""

    def __init__(self, tests, entry_point, reference):
        tree = parsed(tests)
        bound = bound_names(tree)
        loads = {node.id for node in nodes(tree) if kind(node) == "Name" and kind(node.ctx) == "Load"}
        free = loads - bound
        owners = {node.value.id for node in nodes(tree) if kind(node) == "Attribute" and kind(node.value) == "Name"}
        others = [child for node in nodes(tree) if kind(node) != "Attribute" for child in children(node)]
        only_owners = owners - {node.id for node in others if kind(node) == "Name"}
        self.reference = reference
        self.referenced = top_level_names(parsed(reference)) if reference else set()
        designated = set()
        if entry_point:
            designated.add(entry_point.split("(")[0].split(".")[0])
        if "check" in bound:
            designated |= self.checked(tree) & free
        self.needs_call = "check" in bound and "check" not in loads
        if self.needs_call and not entry_point:
            raise Unusable("they define `check`, never call it and name no entry point")
        modules = {name for name in only_owners & free if name in MODULES} - designated - self.referenced
        self.under_test = designated or self.guessed(free - modules)
        rest = free - self.under_test
        self.from_reference = rest & self.referenced if designated else set()
        rest -= self.from_reference
        self.from_library = {name for name in rest if name in MODULE_OF or name in MODULES} - BUILTINS
        self.from_answer = rest - self.from_library - BUILTINS

    @staticmethod
    def checked(tree):
        calls = [node.value for node in tree.body if kind(node) == "Expr" and kind(node.value) == "Call"]
        calls = [call for call in calls if kind(call.func) == "Name" and call.func.id == "check"]
        return {node.id for call in calls for item in call.args for node in nodes(item) if kind(node) == "Name"}

    def guessed(self, free):
        """The names that the reference defines; else those no library has; else the single one that a library has."""
        if free & self.referenced:
            return free & self.referenced
        unknown = {name for name in free if name not in MODULE_OF and name not in MODULES} - BUILTINS
        if unknown:
            return unknown
        for candidates in (free - BUILTINS, free):
            if len(candidates) == 1:
                return candidates
        raise Unusable("which name they test can't be told")

    def namespace(self, peer):
        namespace = {"__name__": "tests", "__builtins__": builtins}
        for name in self.from_library:
            try:
                namespace[name] = library_value(name)
            except LookupError:
                pass
        if self.from_reference:
            made = run_module(self.reference, "reference")
            namespace.update((name, made[name]) for name in self.from_reference if name in made)
        for name in self.under_test:
            namespace[name] = peer.name(name)
            peer.uses += type(namespace[name]) is not Handle
        for name in self.from_answer:
            namespace[name] = peer.name(name)
            peer.assisted = True
        return namespace


def examine(tests, entry_point, reference, peer):
    """Returns when every assertion holds, else raises."""
    plan = Plan(tests, entry_point, reference)
    namespace = plan.namespace(peer)
    code = compile(tests, "tests.py", "exec", dont_inherit=True)
    if "random" in names_in(code):
        # Verdicts must not depend on the clock.
        __import__("random").seed(0)
    try:
        exec(code, namespace)
        if plan.needs_call:
            namespace["check"](eval(entry_point, namespace))
    except ImportError as error:
        if hasattr(error, "raised_by_answer"):
            raise
        raise Unusable(str(error)) from None
    if peer.unusable:
        raise Unusable(peer.unusable)
    if peer.gone:
        raise Gone(peer.gone)
    if not peer.uses:
        raise Unusable("they never use the answer")


def verdict_of(tests, entry_point, reference):
    peer = Peer()
    try:
        peer.greet()
        examine(tests, entry_point, reference, peer)
        return ("passed", peer.assisted)
    except Unusable as error:
        return ("unusable", str(error)[:500])
    except Unstarted:
        return ("unstarted", "")
    except BaseException as error:
        return ("rejected", ("%s: %s" % (type(error).__name__, error))[:500])


def main():
    tests = decode(read_all(TESTS), None)
    posix.write(VERDICT, STARTED)
    pieces = memoryview(encode(verdict_of(*tests), None))
    while pieces:
        pieces = pieces[posix.write(VERDICT, pieces) :]


main()
