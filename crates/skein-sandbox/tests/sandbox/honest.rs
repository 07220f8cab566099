//! What honest answers and tests get: the ways tests are written, and how programs read and write.

use std::thread;

use skein_core::reward::scorers::coding::runner::{AssertTests, Evidence, RunCode, RunError};
use skein_core::reward::scorers::coding::value::PlainValue;

use super::sandbox;

struct Example {
    name: &'static str,
    tests: &'static str,
    entry_point: Option<&'static str>,
    reference: Option<&'static str>,
    code: &'static str,
    expected: Option<Evidence>,
}

const PLAIN: Example =
    Example { name: "", tests: "", entry_point: None, reference: None, code: "", expected: Some(Evidence::Values) };

const EXAMPLES: &[Example] = &[
    Example { name: "every plain type", code: "def f(x): return x", tests: "
for value in (None, True, -5, 2**100, 1.5, float('inf'), 2j, 'é\\ud800', b'\\0', [1, [2]], (), {1}, frozenset('a'), {'a': {}}):
    assert f(value) == value and type(f(value)) is type(value)", ..PLAIN },
    Example { name: "subclasses of plain types", code: "
def f(): return Counter('aab')
def g(): return namedtuple('P', 'x y')(1, 2)", tests: "assert f() == {'a': 2, 'b': 1}\nassert g() == (1, 2)", ..PLAIN },
    Example { name: "keywords", code: "def f(a, *, b=1): return a - b", tests: "assert f(b=2, a=5) == 3", ..PLAIN },
    Example { name: "changes in place", code: "
def f(items, seen):
    items.sort()
    seen.add(1)", tests: "
items, seen = [3, 1, 2], set()
assert f(items, seen) is None
assert items == [1, 2, 3] and seen == {1}", ..PLAIN },
    Example { name: "expected exceptions", code: "def f(x): return {1: 2}[x]", tests: "
try:
    f(0)
    assert False
except KeyError:
    pass
assert f(1) == 2", ..PLAIN },
    Example { name: "state between calls", code: "
n = 0
def f():
    global n
    n += 1
    return n", tests: "assert [f(), f(), f()] == [1, 2, 3]", ..PLAIN },
    Example { name: "a constant", code: "LIMIT = 7", tests: "assert LIMIT == 7", ..PLAIN },
    Example { name: "a class with a method", code: "
class Solution:
    def f(self, x: List[int]) -> Optional[int]: return max(x, default=None)",
        tests: "def check(candidate):\n    assert candidate(x=[1, 5]) == 5\ncheck(Solution().f)", ..PLAIN },
    Example { name: "objects of the answer's", code: "
class Node:
    def __init__(self, value, next=None): self.value, self.next = value, next
def last(node):
    while node.next: node = node.next
    return node.value", tests: "
a = Node(1)
a.next = Node(2)
assert last(a) == 2 and a.next.value == 2", ..PLAIN },
    Example { name: "a generator", code: "def f(n): yield from range(n)", tests: "assert list(f(3)) == [0, 1, 2]",
        expected: Some(Evidence::Assisted), ..PLAIN },
    Example { name: "objects compared", code: "
class P:
    def __init__(self, x): self.x = x
    def __eq__(self, other): return self.x == other.x", tests: "assert P(1) == P(1) and not P(1) == P(2)",
        expected: Some(Evidence::Assisted), ..PLAIN },
    Example { name: "check without its call", entry_point: Some("f"), code: "def f(x): return x + 1",
        tests: "def check(candidate):\n    assert candidate(1) == 2", ..PLAIN },
    Example { name: "check without its call, wrong", entry_point: Some("f"), code: "def f(x): return x",
        tests: "def check(candidate):\n    assert candidate(1) == 2", expected: None, ..PLAIN },
    Example { name: "a built-in's name", code: "def sum(a, b): return a * b", tests: "assert sum(2, 5) == 10", ..PLAIN },
    Example { name: "a library's name", code: "def gcd(a, b): return 7", tests: "assert gcd(2, 5) == 7", ..PLAIN },
    Example { name: "a library's name, not defined", code: "x = 1", tests: "assert gcd(12, 18) == 7", expected: None, ..PLAIN },
    Example { name: "a helper of the answer's", entry_point: Some("f"), code: "
def half(x): return x / 2
def f(x): return x * 2", tests: "assert f(half(3)) == 3", expected: Some(Evidence::Assisted), ..PLAIN },
    Example { name: "a helper of the reference's", entry_point: Some("f"), reference: Some("
def half(x): return x / 2
def f(x): return 2 * x"), code: "def f(x): return x + x", tests: "assert f(half(3)) == 3", ..PLAIN },
    Example { name: "a lie in a helper", entry_point: Some("f"), reference: Some("
def half(x): return x / 2
def f(x): return 2 * x"), code: "
def half(x): return x
def f(x): return x", tests: "assert f(half(3)) == 3", expected: None },
    Example { name: "names under test by the reference", reference: Some("def sum(a): return 1"),
        code: "def sum(a): return 1", tests: "assert sum([3]) == 1 and len([1]) == 1", ..PLAIN },
    Example { name: "libraries without import", code: "
def f(items: List[int]) -> int:
    heapify(items)
    return math.floor(sqrt(heappop(items))) + bisect_left([1, 2], 2)", tests: "assert math.isclose(f([9, 4]), 3)", ..PLAIN },
    Example { name: "a guarded main", code: "def f(): return 1\nif __name__ == '__main__':\n    print(input())",
        tests: "assert f() == 1", ..PLAIN },
    Example { name: "an answer that prints", code: "print('x' * 10**6)\ndef f():\n    print('y' * 10**6)\n    return 1",
        tests: "assert f() == 1", ..PLAIN },
    Example { name: "deep recursion", code: "def f(n): return 0 if n == 0 else 1 + f(n - 1)",
        tests: "assert f(20000) == 20000", ..PLAIN },
    Example { name: "large values", code: "def f(n): return list(range(n))", tests: "assert len(f(200000)) == 200000", ..PLAIN },
];

#[test]
fn tests_in_many_forms() {
    let sandbox = sandbox();
    for example in EXAMPLES {
        let tests = AssertTests {
            code: example.tests.to_owned(),
            entry_point: example.entry_point.map(str::to_owned),
            reference: example.reference.map(str::to_owned),
        };
        let verdict = sandbox.check_asserts(example.code, &tests);
        let verdict = verdict.unwrap_or_else(|error| panic!("{}: {error}", example.name));
        assert_eq!(verdict.clone().ok(), example.expected, "{}: {verdict:?}", example.name);
    }
}

#[test]
fn tests_that_judge_nobody_are_errors() {
    let sandbox = sandbox();
    for (tests, reason) in [
        ("assert f(1 == 1", "not Python"),
        ("assert True", "can't be told"),
        ("import numpy\nassert f(1) == numpy.int64(1)", "numpy"),
        ("if f is None: f(1)", "never use"),
        ("assert f(lambda x: x) == 1", "type function"),
        ("assert len(set(abs(1))) == 1", "can't be told"),
        ("def check(candidate):\n    assert candidate(1)", "never call it"),
    ] {
        let tests = AssertTests { code: tests.to_owned(), entry_point: None, reference: None };
        match sandbox.check_asserts("def f(x): return x", &tests) {
            Err(RunError::Tests(problem)) => assert!(problem.contains(reason), "{tests:?}: {problem}"),
            other => panic!("{tests:?}: {other:?}"),
        }
    }
}

#[test]
fn programs_read_and_write() {
    let sandbox = sandbox();
    for (code, stdin, expected) in [
        ("print(input()[::-1])", "abc\n", "cba\n"),
        ("import sys\nprint(sys.stdin.buffer.read())", "é\0", "b'\\xc3\\xa9\\x00'\n"),
        ("import sys\nfor line in sys.stdin: print(len(line))", "a\nbb", "2\n2\n"),
        ("print(1)\nexit()\nprint(2)", "", "1\n"),
        ("import sys\nprint(1)\nsys.exit(3)", "", "1\n"),
        ("raise SystemExit('done')", "", ""),
        ("if __name__ == '__main__': print(__name__)", "", "__main__\n"),
        ("from __future__ import annotations\ndef f(x: Nothing): pass\nprint(1)", "", "1\n"),
        ("print(Counter('aa')['a'], maxsize > 0, datetime.date(2020, 1, 1).year)", "", "2 True 2020\n"),
        ("from dataclasses import dataclass\n@dataclass\nclass P:\n    x: int\nprint(P(1))", "", "P(x=1)\n"),
        ("open('notes', 'w').write('x')\nprint(open('notes').read())", "", "x\n"),
        ("import tempfile\nwith tempfile.TemporaryFile() as f: f.write(b'x'); print(f.tell())", "", "1\n"),
        ("print(hash('a') == hash('a'), list({'x', 'y', 'z'}) == sorted({'x', 'y', 'z'}) or 1)", "", "True 1\n"),
        ("from concurrent.futures import ThreadPoolExecutor as T\nprint(sum(T(4).map(abs, [-1, -2])))", "", "3\n"),
        ("import decimal, fractions, sqlite3, hashlib, zlib, json, re, random, uuid, pickle\nprint(1)", "", "1\n"),
    ] {
        let output = sandbox.run_program(code, stdin).unwrap();
        assert_eq!(output, Ok(expected.to_owned()), "{code}");
    }
    for code in ["input()", "print(1); raise ValueError", "import os; print(1); os._exit(1)", "1/0"] {
        assert!(sandbox.run_program(code, "").unwrap().is_err(), "{code}");
    }
    let long = "7\n".repeat(500_000);
    assert_eq!(sandbox.run_program("import sys; print(len(sys.stdin.read()))", &long).unwrap().unwrap(), "1000000\n");
}

#[test]
fn order_of_sets_is_the_same_in_every_run() {
    let sandbox = sandbox();
    let run = || sandbox.run_program("print({str(i) for i in range(50)})", "").unwrap().unwrap();
    assert_eq!(run(), run());
}

#[test]
fn many_threads_may_run_at_once() {
    let sandbox = sandbox();
    thread::scope(|scope| {
        for index in 0..6_i64 {
            let sandbox = &sandbox;
            scope.spawn(move || {
                let argument = PlainValue::Int(index.into());
                let result = sandbox.call("def f(x): return x * x", "f", &[argument]).unwrap();
                assert_eq!(result, Ok(PlainValue::Int((index * index).into())));
            });
        }
    });
}
