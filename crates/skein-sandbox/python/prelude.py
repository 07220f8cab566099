"""Names that answers may use without importing them, as LiveCodeBench's star imports allow.

A module is imported only when a name of it occurs, so that a plain program pays for nothing.
"""

import builtins
import sys

MODULES = frozenset(
    "string re datetime collections heapq bisect copy math random statistics itertools functools operator io sys json "
    "typing time".split()
)

NAMES_BY_MODULE = {
    "typing": "Any AnyStr Callable Collection DefaultDict Deque Dict FrozenSet Generator Generic Hashable Iterable "
    "Iterator List Literal Mapping MutableMapping NamedTuple NoReturn Optional Sequence Set Tuple Type TypeVar Union "
    "cast",
    "collections": "ChainMap Counter OrderedDict UserDict UserList UserString defaultdict deque namedtuple",
    "string": "ascii_letters ascii_lowercase ascii_uppercase capwords digits hexdigits octdigits printable punctuation "
    "whitespace",
    "datetime": "date time timedelta timezone",
    "heapq": "heapify heappop heappush heappushpop heapreplace merge nlargest nsmallest",
    "bisect": "bisect_left bisect_right insort insort_left insort_right",
    "copy": "deepcopy",
    "math": "acos acosh asin asinh atan atan2 atanh ceil comb copysign cos cosh degrees dist e erf exp expm1 fabs "
    "factorial floor fmod frexp fsum gamma gcd hypot inf isclose isfinite isinf isnan isqrt lcm ldexp lgamma log log10 "
    "log1p log2 modf nan perm pi prod radians remainder sin sinh sqrt tan tanh tau trunc",
    "random": "choice choices gauss getrandbits randint randrange sample seed shuffle uniform",
    "statistics": "fmean geometric_mean harmonic_mean mean median median_high median_low mode multimode pstdev "
    "pvariance quantiles stdev variance",
    "itertools": "accumulate chain combinations combinations_with_replacement compress count cycle dropwhile "
    "filterfalse groupby islice pairwise permutations product repeat starmap takewhile tee zip_longest",
    "functools": "cache cached_property cmp_to_key lru_cache partial reduce singledispatch total_ordering wraps",
    "operator": "add and_ attrgetter concat contains floordiv itemgetter lshift methodcaller mod mul neg or_ rshift "
    "sub truediv xor",
    "io": "BytesIO StringIO",
    "re": "findall finditer fullmatch match search split",
    "json": "dumps loads",
    "sys": "maxsize setrecursionlimit stdin stdout stderr",
}

MODULE_OF = {name: module for module, names in NAMES_BY_MODULE.items() for name in names.split()}
BUILTINS = frozenset(dir(builtins))


def library_value(name):
    """What `name` is without an import; LookupError where it is nothing."""
    if name in MODULES:
        return __import__(name)
    module = __import__(MODULE_OF[name])
    if not hasattr(module, name):
        raise LookupError(name)
    return getattr(module, name)


def names_in(code):
    """Every global or attribute name that a code object and those inside it mention."""
    names, pending = set(), [code]
    while pending:
        current = pending.pop()
        names.update(current.co_names)
        pending.extend(item for item in current.co_consts if isinstance(item, type(code)))
    return names


def namespace_for(code, name):
    """Globals for `code`: its module's own names and those of the prelude that it mentions."""
    namespace = {"__name__": name, "__builtins__": builtins, "__doc__": None, "__annotations__": {}}
    for mentioned in names_in(code):
        if mentioned not in BUILTINS:
            try:
                namespace[mentioned] = library_value(mentioned)
            except LookupError:
                pass
    return namespace


def run_module(source, name):
    """Runs `source` as the module `name`; its globals."""
    code = compile(source, "answer.py", "exec", dont_inherit=True)
    module = type(sys)(name)
    module.__dict__.update(namespace_for(code, name))
    sys.modules[name] = module
    sys.setrecursionlimit(50_000)
    builtins.exit = builtins.quit = sys.exit
    exec(code, module.__dict__)
    return module.__dict__
