//! Answers that try to pass without being right. In each group an honest answer passes the same tests.

use skein_core::reward::scorers::coding::runner::{AssertTests, Evidence, RunCode};
use skein_core::reward::scorers::coding::value::PlainValue;
use skein_sandbox::Sandbox;

use super::impatient_sandbox;

const SQUARES: &str = "assert f(2) == 4\nassert f(3) == 9";

fn verdict(sandbox: &Sandbox, code: &str, tests: &str) -> Option<Evidence> {
    let tests = AssertTests { code: tests.to_owned(), entry_point: None, reference: None };
    sandbox.check_asserts(code, &tests).unwrap_or_else(|error| panic!("{error}: {code}")).ok()
}

/// Wrong answers to `SQUARES`.
const FAKES: &[(&str, &str)] = &[
    (
        "equal to everything",
        "
class E:
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __hash__(self): return 0
def f(x): return E()",
    ),
    (
        "a number equal to everything",
        "
class E(int):
    def __eq__(self, other): return True
    __hash__ = int.__hash__
def f(x): return E(1)",
    ),
    (
        "a number in disguise",
        "
class E:
    __class__ = int
    def __eq__(self, other): return True
def f(x): return E()",
    ),
    (
        "reflected comparison",
        "
class Meta(type):
    def __eq__(self, other): return True
    __hash__ = type.__hash__
class E(metaclass=Meta): pass
def f(x): return E",
    ),
    ("leave at once", "import sys; sys.exit(0)"),
    ("leave at once, hard", "import os; os._exit(0)"),
    ("leave when called", "import sys\ndef f(x): sys.exit(0)"),
    ("leave when called, hard", "import os\ndef f(x): os._exit(0)"),
    (
        "leave from a thread",
        "
import os, threading
def f(x): threading.Thread(target=os._exit, args=(0,)).start()",
    ),
    ("say so", "print('passed')\nprint('OK')\ndef f(x): print('passed')"),
    ("say so at the end", "import atexit; atexit.register(print, 'passed')"),
    ("patched assertion", "import builtins; builtins.AssertionError = Exception\ndef f(x): return 0"),
    ("raised assertion", "def f(x): raise AssertionError"),
    ("the end of an iteration", "def f(x): raise StopIteration"),
    ("a missing import", "def f(x): raise ImportError('numpy')"),
    ("a missing module", "raise ModuleNotFoundError('numpy')"),
    ("an interrupt", "def f(x): raise KeyboardInterrupt"),
    ("an exception of its own", "class Done(BaseException): pass\ndef f(x): raise Done('passed')"),
    (
        "an exception that breaks its printer",
        "
class E(Exception):
    def __str__(self): raise SystemExit
def f(x): raise E",
    ),
    (
        "every descriptor",
        "
import os
for number in range(64):
    try: os.write(number, b'RU2:S6:passedF')
    except OSError: pass
def f(x): return None",
    ),
    (
        "replies in advance",
        "
import os
for _ in range(100): os.write(5, b'15\\nU3:S5:valueTL0:')
def f(x): return None",
    ),
    ("no frame", "import os; os.write(5, b'passed' * 100)\ndef f(x): return 0"),
    ("an endless frame", "import os; os.write(5, b'999999999999\\n')\ndef f(x): return 0"),
    ("a frame of many items", "import os; os.write(5, b'13\\nL99999999999:')\ndef f(x): return 0"),
    ("an object that is not there", "import os; os.write(5, b'21\\nU3:S5:valueH99999;L0:')\ndef f(x): return 0"),
    ("closed pipes", "import os\ndef f(x): os.closerange(3, 64)"),
    ("requests read ahead", "import os\ndef f(x): os.read(4, 1 << 20)\nos.set_blocking(4, False)"),
    (
        "a patched codec",
        "
import sys
frame = sys._getframe()
while frame.f_back: frame = frame.f_back
frame.f_globals['put_value'] = lambda value, pieces, export, depth: pieces.append(b'T')
def f(x): return 0",
    ),
    (
        "a hunt for expected values",
        "
import gc, sys
def f(x):
    frame, seen = sys._getframe(), []
    while frame:
        seen.extend(frame.f_locals.values())
        frame = frame.f_back
    texts = [o for o in gc.get_objects() + seen if isinstance(o, (str, bytes)) and len(o) < 1000]
    return x * x if any('assert' + ' f(2) ==' in str(text) for text in texts) else None",
    ),
    (
        "a deep value",
        "
def f(x):
    value = []
    for _ in range(100000): value = [value]
    return value",
    ),
    ("a value that holds itself", "value = []\nvalue.append(value)\ndef f(x): return value"),
    ("a big value", "def f(x): return list(range(10**7))"),
    (
        "an endless value",
        "
def f(x):
    while True: yield x * x",
    ),
    ("a hang", "def f(x):\n    while True: pass"),
    ("not a number", "def f(x): return float('nan')"),
    ("nearly", "def f(x): return x * x + 1e-9"),
    ("a text", "def f(x): return str(x * x)"),
    ("a list", "def f(x): return [x * x]"),
    ("another name", "def g(x): return x * x"),
    ("nothing", ""),
    ("no Python", "def f(x) return x * x"),
    ("a constant", "def f(x): return 4"),
];

/// Tests that compare in other ways than by `==`, an answer that is right, and answers that are not.
const GROUPS: &[(&str, &str, &[&str])] = &[
    (
        "assert abs(f(2) - 1.5) < 1e-6",
        "def f(x): return 1.5",
        &[
            "class E:\n    def __sub__(self, o): return 0\ndef f(x): return E()",
            "class E(float):\n    def __sub__(self, o): return 0\ndef f(x): return E(7)",
            "class E:\n    def __sub__(self, o): return self\n    def __abs__(self): return 0\ndef f(x): return E()",
            "def abs(x): return 0\ndef f(x): return 2",
            "import builtins\nbuiltins.abs = lambda x: 0\ndef f(x): return 2",
        ],
    ),
    (
        "import math\nassert math.isclose(f(2), 1.5)",
        "def f(x): return 1.5",
        &[
            "import math\nmath.isclose = lambda *a: True\ndef f(x): return 0",
            "class E:\n    def __float__(self): return 1.4\ndef f(x): return E()",
        ],
    ),
    (
        "assert 7 in f(2)",
        "def f(x): return [7]",
        &[
            "class E:\n    def __contains__(self, o): return True\n    def __iter__(self): return iter([1])\ndef f(x): return E()",
        ],
    ),
    (
        "assert f(2) in (4, 5)",
        "def f(x): return 5",
        &["class E:\n    def __eq__(self, o): return True\ndef f(x): return E()"],
    ),
    (
        "assert f(3) <= 10 and f(3) >= 8",
        "def f(x): return 9",
        &["
class E:
    def __le__(self, o): return True
    def __ge__(self, o): return True
def f(x): return E()"],
    ),
    (
        "assert isinstance(f(1), int) and f(1) == 1",
        "def f(x): return 1",
        &["class E:\n    __class__ = int\n    def __eq__(self, o): return True\ndef f(x): return E()"],
    ),
    (
        "assert set(f([1, 1, 2])) == {1, 2} and len(f([1, 1, 2])) == 2",
        "def f(x): return sorted(set(x))",
        &[
            "def set(x): return 0\ndef len(x): return 2\ndef f(x): return 0",
            "class E(list):\n    def __len__(self): return 2\ndef f(x): return E([1, 2, 2])",
        ],
    ),
    (
        "for got in map(f, [1, 2]):\n    assert got == 7",
        "def f(x): return 7",
        &["def f(x): raise StopIteration", "import os\ndef f(x): os._exit(0)"],
    ),
    (
        "try:\n    f(-1)\nexcept Exception:\n    pass\nelse:\n    assert False\nassert f(1) == 1",
        "def f(x):\n    if x < 0: raise ValueError\n    return x",
        &["import os\ndef f(x): os._exit(0)", "def f(x): raise ValueError"],
    ),
    (
        "def check(candidate):\n    assert candidate(2) == 4\n    assert candidate(3) == 9\ncheck(f)",
        "def f(x): return x * x",
        &[
            "def check(candidate): pass\ndef f(x): return 0",
            "candidate = lambda x: x * x\ndef f(x): return 0",
            "import sys\nsys.modules['tests'] = None\ndef f(x): return 0",
        ],
    ),
    (
        "import random\nfor _ in range(20):\n    n = random.randint(0, 10**6)\n    assert f(n) == n + 1",
        "def f(n): return n + 1",
        &["import random\nrandom.randint = lambda a, b: 0\ndef f(n): return 1"],
    ),
    (
        "assert f(1) == [1, {'a': (2, 3.0)}, None, b'x', {4}]",
        "def f(x): return [1, {'a': (2, 3.0)}, None, b'x', {4}]",
        &[
            "class E:\n    def __eq__(self, o): return True\n    def __hash__(self): return 4\ndef f(x): return [1, {'a': E()}, None, b'x', {E()}]",
        ],
    ),
];

#[test]
fn no_fake_passes() {
    let sandbox = impatient_sandbox();
    assert_eq!(verdict(&sandbox, "def f(x): return x * x", SQUARES), Some(Evidence::Values));
    for (name, code) in FAKES {
        assert_eq!(verdict(&sandbox, code, SQUARES), None, "{name}");
    }
}

#[test]
fn no_fake_passes_other_comparisons() {
    let sandbox = impatient_sandbox();
    for (tests, honest, fakes) in GROUPS {
        assert!(verdict(&sandbox, honest, tests).is_some(), "{tests}");
        for fake in *fakes {
            assert_eq!(verdict(&sandbox, fake, tests), None, "{tests}\n{fake}");
        }
    }
}

#[test]
fn calls_return_plain_values_or_nothing() {
    let sandbox = impatient_sandbox();
    let call = |code: &str| sandbox.call(code, "f", &[PlainValue::Int(2.into())]).unwrap();
    assert_eq!(call("def f(x): return x * x"), Ok(PlainValue::Int(4.into())));
    assert_eq!(call("class Solution:\n    def f(self, x): return x * x"), Ok(PlainValue::Int(4.into())));
    for code in [
        "import os\nos.write(5, b'17\\nU3:S5:valueI4;L0:')\nos._exit(3)",
        "import os\ndef f(x): os._exit(0)",
        "import sys\ndef f(x): sys.exit(0)",
        "class E:\n    def __eq__(self, o): return True\ndef f(x): return E()",
        "def f(x): yield x",
        "def f(x): return [E()]\nclass E: pass",
        "def f(x): return '\\ud800'",
        "def f(x): raise ValueError",
        "def f(x): return bytes(1 << 22)",
        "def f():\n    return 4",
        "g = 4",
        "",
    ] {
        assert!(call(code).is_err(), "{code}");
    }
}
