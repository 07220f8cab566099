"""The answer's process: runs it as a program, or answers requests about what it defines.

Nothing in here knows an expected result, and nothing that it says counts for more than a value: an answer that takes this
code apart only chooses which values to send.
"""

CODE, REQUESTS, REPLIES = 3, 4, 5
STARTED = b"R"
THREAD_STACK = 8 << 20


class Objects:
    """What the answer made and can't be written as a literal, by number."""

    def __init__(self):
        self.items = []
        self.numbers = {}

    def number(self, item):
        known = self.numbers.get(id(item))
        if known is None:
            known = self.numbers[id(item)] = len(self.items)
            self.items.append(item)
        return known

    def item(self, number):
        return self.items[number]


def program(source):
    posix.close(REQUESTS)
    posix.close(REPLIES)
    sys.argv = ["answer.py"]
    try:
        run_module(source, "__main__")
    except SystemExit:
        pass


def serve(source):
    channel = Channel(REQUESTS, REPLIES)
    objects = Objects()
    namespace = None
    while True:
        try:
            request = channel.receive()
        except EOFError:
            return
        try:
            if namespace is None:
                namespace = run_module(source, "answer")
            reply = answer(namespace, objects, decode(request, objects.item))
            data = encode(reply, objects.number)
        except BaseException as error:
            names = [base.__name__ for base in type(error).__mro__]
            data = encode(("raised", names, str(error)[:200]), objects.number)
        channel.send(data)


def answer(namespace, objects, request):
    operation, operands = request[0], request[1:]
    if operation == "call" or operation == "solve":
        target, arguments, keywords = operands
        if operation == "solve":
            target = entry(namespace, target)
        before = [encode(item, objects.number) for item in arguments]
        result = target(*arguments, **keywords)
        changes = [
            (index, item)
            for index, item in enumerate(arguments)
            if isinstance(item, (list, dict, set, bytearray)) and encode(item, objects.number) != before[index]
        ]
        return ("value", result, changes)
    return ("value", OPERATIONS[operation](namespace, *operands), [])


def entry(namespace, name):
    if "Solution" in namespace:
        return getattr(namespace["Solution"](), name)
    return namespace[name]


def named(namespace, name):
    if name in namespace:
        return namespace[name]
    raise NameError("name '%s' is not defined" % name)


def advance(_, iterator):
    try:
        return (True, next(iterator))
    except StopIteration:
        return (False, None)


def compare(_, relation, left, right):
    return bool(getattr(__import__("operator"), relation)(left, right))


OPERATIONS = {
    "name": named,
    "get": lambda _, target, name: getattr(target, name),
    "set": lambda _, target, name, value: setattr(target, name, value),
    "item": lambda _, target, key: target[key],
    "put": lambda _, target, key, value: target.__setitem__(key, value),
    "len": lambda _, target: len(target),
    "bool": lambda _, target: bool(target),
    "str": lambda _, target: str(target),
    "repr": lambda _, target: repr(target),
    "iter": lambda _, target: iter(target),
    "next": advance,
    "compare": compare,
}


def main():
    source = read_all(CODE)
    # The default is the main thread's, of which the address space has room for a dozen.
    __import__("_thread").stack_size(THREAD_STACK)
    posix.write(REPLIES, STARTED)
    (program if sys.argv[1] == "program" else serve)(source)


main()
