//! Programs that try to reach out of the sandbox or to use up the machine. Each says whether it was held.

use std::fs;

use skein_core::reward::scorers::coding::runner::{Failure, RunCode};

use super::{impatient_sandbox, sandbox};

/// What `attempt` prints where an attack was refused; any other exception than a refusal fails the program.
const PRELUDE: &str = r#"
import os, sys
def attempt(attack):
    try:
        result = attack()
    except (OSError, MemoryError):
        print("held")
    except RuntimeError as error:
        print("held" if "thread" in str(error) else error)
    else:
        print("ESCAPED", result)
"#;

/// Attacks that raise. `CANARY` is a file of the host's that anyone may read and write.
const REFUSED: &[(&str, &str)] = &[
    ("read a system file", "attempt(lambda: open('/etc/passwd').read())"),
    ("read a host file", "attempt(lambda: open('CANARY').read())"),
    ("write a host file", "attempt(lambda: open('CANARY', 'w').write('gone'))"),
    ("append to the standard library", "attempt(lambda: open(os.__file__, 'a'))"),
    ("replace the interpreter", "attempt(lambda: os.replace(sys.executable, '/scratch/python'))"),
    ("write beside the scratch directory", "attempt(lambda: open('/file', 'w'))"),
    ("climb out of the scratch directory", "attempt(lambda: open('../' * 40 + 'CANARY'[1:]).read())"),
    ("follow a symbolic link out", "os.symlink('CANARY', 'link'); attempt(lambda: open('link').read())"),
    ("follow a link to a directory out", "os.symlink('/var', 'var'); attempt(lambda: os.listdir('var'))"),
    ("hard-link the interpreter", "attempt(lambda: os.link(sys.executable, 'python'))"),
    ("make a device", "import stat; attempt(lambda: os.mknod('disk', stat.S_IFBLK | 0o600, os.makedev(254, 0)))"),
    ("read a disk", "attempt(lambda: open('/dev/vda', 'rb').read(1))"),
    ("read memory", "attempt(lambda: open('/dev/mem', 'rb').read(1))"),
    ("use shared memory", "attempt(lambda: open('/dev/shm/x', 'w'))"),
    ("look at itself in /proc", "attempt(lambda: open('/proc/self/status').read())"),
    ("look at the first process", "attempt(lambda: os.listdir('/proc/1'))"),
    ("reach the old root", "attempt(lambda: open('/proc/1/root/etc/passwd').read())"),
    ("patch its own memory", "attempt(lambda: open('/proc/self/mem', 'r+b'))"),
    ("look into /sys", "attempt(lambda: os.listdir('/sys/kernel'))"),
    ("fork", "attempt(os.fork)"),
    ("fork until it works", "\nfor _ in range(1000): attempt(os.fork)"),
    ("fork a terminal", "attempt(os.forkpty)"),
    ("spawn", "attempt(lambda: os.posix_spawn(sys.executable, ['python'], {}))"),
    ("run a shell", "import subprocess; attempt(lambda: subprocess.run(['/bin/sh', '-c', 'true'], check=True))"),
    ("run another Python", "import subprocess; attempt(lambda: subprocess.run([sys.executable, '-c', '']))"),
    ("share work among processes", "import multiprocessing as m; attempt(lambda: m.Process(target=print).start())"),
    ("become a daemon", "attempt(lambda: (os.fork(), os.setsid(), os.fork()))"),
    ("make a session", "attempt(os.setsid)"),
    ("kill its parent", "attempt(lambda: os.kill(os.getppid(), 9))"),
    ("kill the first process", "attempt(lambda: os.kill(1, 15))"),
    ("kill everything", "attempt(lambda: os.kill(-1, 9))"),
    ("kill its group", "attempt(lambda: os.killpg(0, 9))"),
    ("kill through a descriptor's owner", "import fcntl; r, w = os.pipe(); attempt(lambda: fcntl.fcntl(r, 8, 1))"),
    ("ask for signals on a descriptor", "import fcntl; r, w = os.pipe(); attempt(lambda: fcntl.fcntl(r, 10, 9))"),
    ("open a process", "attempt(lambda: os.pidfd_open(1))"),
    ("connect pairwise", "import socket; attempt(socket.socketpair)"),
    ("listen", "import socket; attempt(lambda: socket.create_server(('127.0.0.1', 0)))"),
    ("connect", "import socket; attempt(lambda: socket.create_connection(('127.0.0.1', 22), 1))"),
    ("fetch a page", "import urllib.request as u; attempt(lambda: u.urlopen('http://127.0.0.1/', timeout=1))"),
    ("another user", "attempt(lambda: os.setuid(0))"),
    ("another root", "attempt(lambda: os.chroot('.'))"),
    ("higher priority", "attempt(lambda: os.nice(-5))"),
    ("more processor time", "import resource as r; attempt(lambda: r.prlimit(1, r.RLIMIT_CPU, (99, 99)))"),
    ("one big block", "attempt(lambda: bytearray(2 << 30))"),
    ("many blocks", "\nheld = []\ndef grow():\n  while True: held.append(bytearray(1 << 24))\nattempt(grow)"),
    ("a big mapping", "import mmap; attempt(lambda: mmap.mmap(-1, 2 << 30))"),
    ("a shared mapping", "import mmap; attempt(lambda: mmap.mmap(-1, 2 << 30, flags=mmap.MAP_SHARED))"),
    (
        "memory in many threads",
        "
import threading
gate, held = threading.Event(), []
def grow():
    gate.wait()
    try:
        while True: held.append(bytearray(1 << 24))
    except MemoryError:
        pass
def spread():
    threads = [threading.Thread(target=grow) for _ in range(8)]
    for thread in threads: thread.start()
    gate.set()
    for thread in threads: thread.join()
    total = sum(map(len, held))
    held.clear()
    if total < 1 << 30: raise MemoryError
attempt(spread)",
    ),
    ("a big file", "attempt(lambda: open('big', 'wb').write(bytes(17 << 20)))"),
    ("many files", "\ndef fill():\n  for i in range(5000): open(str(i), 'wb').write(bytes(8192))\nattempt(fill)"),
    ("many descriptors", "\nheld = []\ndef fill():\n  while True: held.append(os.open('/dev/null', 0))\nattempt(fill)"),
    (
        "many threads",
        "
import threading
threading.stack_size(1 << 16)
closed = threading.Lock()
closed.acquire()
def fill():
    for _ in range(200): threading.Thread(target=closed.acquire, daemon=True).start()
attempt(fill)",
    ),
];

/// System calls that no Python function makes as an attack needs them, with arguments that would mean success.
#[cfg(target_arch = "x86_64")]
const SYSTEM_CALLS: &[(&str, i64, &str)] = &[
    ("ptrace", libc::SYS_ptrace, "0, 0, 0, 0"),
    ("process_vm_readv", libc::SYS_process_vm_readv, "1, 0, 0, 0, 0, 0"),
    ("process_vm_writev", libc::SYS_process_vm_writev, "1, 0, 0, 0, 0, 0"),
    ("vfork by clone", libc::SYS_clone, "0x4111, 0, 0, 0, 0"),
    ("clone3", libc::SYS_clone3, "0, 0"),
    ("unshare", libc::SYS_unshare, "0x10000000"),
    ("setns", libc::SYS_setns, "0, 0"),
    ("mount", libc::SYS_mount, "b'none', b'/scratch', b'tmpfs', 0, 0"),
    ("umount", libc::SYS_umount2, "b'/scratch', 2"),
    ("pivot_root", libc::SYS_pivot_root, "b'.', b'.'"),
    ("bpf", libc::SYS_bpf, "0, 0, 0"),
    ("io_uring", libc::SYS_io_uring_setup, "1, 0"),
    ("userfaultfd", libc::SYS_userfaultfd, "0"),
    ("memfd", libc::SYS_memfd_create, "b'x', 0"),
    ("secret memory", libc::SYS_memfd_secret, "0"),
    ("System V memory", libc::SYS_shmget, "1, 4096, 0o1600"),
    ("System V messages", libc::SYS_msgget, "1, 0o1600"),
    ("POSIX messages", libc::SYS_mq_open, "b'x', 0o102, 0o600, 0"),
    ("keys", libc::SYS_add_key, "b'user', b'a', b'b', 1, -2"),
    ("performance counters", libc::SYS_perf_event_open, "0, 0, -1, -1, 0"),
    ("file handles", libc::SYS_open_by_handle_at, "0, 0, 0"),
    ("rt_sigqueueinfo", libc::SYS_rt_sigqueueinfo, "1, 9, 0"),
    ("tkill", libc::SYS_tkill, "1, 9"),
    ("pidfd_getfd", libc::SYS_pidfd_getfd, "0, 0, 0"),
    ("seccomp", libc::SYS_seccomp, "2, 0, 0"),
    ("prctl", libc::SYS_prctl, "36, 1, 0, 0, 0"),
    ("socket by number", libc::SYS_socket, "2, 1, 0"),
    ("lock memory", libc::SYS_mlockall, "1"),
];

fn program(attack: &str, canary: &str) -> String {
    format!("{PRELUDE}{}", attack.replace("CANARY", canary))
}

#[test]
fn refused_attacks_raise_and_change_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let canary = directory.path().join("canary");
    fs::write(&canary, "sings").unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode;
    fs::set_permissions(directory.path(), open(0o777)).unwrap();
    fs::set_permissions(&canary, open(0o666)).unwrap();
    let sandbox = sandbox();
    for (name, attack) in REFUSED {
        let output = sandbox.run_program(&program(attack, canary.to_str().unwrap()), "").unwrap();
        let held = output.as_ref().is_ok_and(|output| !output.is_empty() && output.lines().all(|line| line == "held"));
        assert!(held, "{name}: {output:?}");
        assert_eq!(fs::read_to_string(&canary).unwrap(), "sings", "{name}");
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn refused_system_calls_fail() {
    let sandbox = sandbox();
    for (name, number, arguments) in SYSTEM_CALLS {
        let code = format!(
            "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\nresult = libc.syscall({number}, {arguments})\n\
             print(result, ctypes.get_errno())"
        );
        let output = sandbox.run_program(&code, "").unwrap().unwrap_or_else(|failure| panic!("{name}: {failure}"));
        let refused = [libc::EPERM, libc::ENOSYS].map(|error| format!("-1 {error}\n"));
        assert!(refused.contains(&output), "{name}: {output:?}");
    }
}

#[test]
fn sockets_of_every_family_are_refused() {
    let attack = "
import socket
for family in range(64):
    for kind in (1, 2, 3, 5, 10):
        attempt(lambda: socket.socket(family, kind))";
    let output = sandbox().run_program(&program(attack, ""), "").unwrap().unwrap();
    assert_eq!(output, "held\n".repeat(64 * 5));
}

#[test]
fn attacks_on_time_and_output_end_at_the_limit() {
    let sandbox = impatient_sandbox();
    for (name, code, expected) in [
        ("spin", "while True: pass", Failure::TimeLimit),
        ("sleep", "import time; time.sleep(60)", Failure::TimeLimit),
        ("wait for itself", "import threading; threading.Event().wait()", Failure::TimeLimit),
        (
            "ignore the warning",
            "
import signal
for number in range(1, 32):
    try: signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError): pass
while True: pass",
            Failure::TimeLimit,
        ),
        (
            "catch everything",
            "
while True:
    try:
        while True: pass
    except BaseException: pass",
            Failure::TimeLimit,
        ),
        (
            "leave a thread behind",
            "import threading, time; threading.Thread(target=time.sleep, args=(60,)).start()",
            Failure::TimeLimit,
        ),
        ("never finish leaving", "import atexit, time; atexit.register(time.sleep, 60)", Failure::TimeLimit),
        (
            "spin in every thread",
            "
import threading
def spin():
    while True: pass
for _ in range(8): threading.Thread(target=spin).start()",
            Failure::TimeLimit,
        ),
        ("a hopeless pattern", "import re; re.match('(a+)+$', 'a' * 40 + 'b')", Failure::TimeLimit),
        ("a huge power", "9 ** 9 ** 9", Failure::TimeLimit),
        ("write for ever", "while True: print('x' * 1000)", Failure::OutputLimit),
        ("write one long line", "import os\nwhile True: os.write(1, bytes(65536))", Failure::OutputLimit),
    ] {
        let outcome = sandbox.run_program(code, "").unwrap();
        let memory = matches!(&outcome, Err(Failure::Stopped(reason)) if reason.contains("MemoryError"));
        assert!(outcome == Err(expected) || memory, "{name}: {outcome:?}");
    }
}

#[test]
fn odd_programs_are_judged_like_any_other() {
    let sandbox = sandbox();
    for (name, code, expected) in [
        (
            "errors without end",
            "import sys\nfor _ in range(10000): sys.stderr.write('x' * 1000)\nprint('held')",
            "held\n",
        ),
        ("no character at all", "import os; os.write(1, b'a\\0b')", "a\0b"),
        ("no text at all", "import os; os.write(1, b'\\xff\\n')", "\u{fffd}\n"),
        ("text of many kinds", "print('é\u{1F600}\\u202e')", "é\u{1F600}\u{202e}\n"),
        (
            "a daemon thread",
            "
import threading, time
threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
print('held')",
            "held\n",
        ),
        (
            "descriptors of the machinery",
            "
import os
found = []
for number in range(3, 64):
    try: found.append(os.fstat(number))
    except OSError: pass
print(len(found))",
            "0\n",
        ),
        (
            "an environment without secrets",
            "
import os
print(sorted(set(os.environ) - {'LC_CTYPE'}))",
            "['HOME', 'LC_ALL', 'PATH', 'PYTHONHASHSEED', 'PYTHONUTF8', 'TMPDIR']\n",
        ),
        (
            "a new program in the same jail",
            "
import os, sys
attack = '''
try: open('/etc/passwd'); print('ESCAPED')
except OSError: print('held')
'''
os.execv(sys.executable, ['python', '-S', '-c', attack])",
            "held\n",
        ),
        (
            "hooks for the next run",
            "
import os
print(os.listdir('.'))
for name in ('sitecustomize.py', 'usercustomize.py', 'os.py'): open(name, 'w').write('print(1)')",
            "[]\n",
        ),
        ("hooks from the last run", "import os; print(os.listdir('.'))", "[]\n"),
    ] {
        assert_eq!(sandbox.run_program(code, "").unwrap(), Ok(expected.to_owned()), "{name}");
    }
    let sandbox = impatient_sandbox();
    for (name, code) in [
        (
            "bottomless recursion",
            "
import sys
sys.setrecursionlimit(10**9)
def f(): return f() + 1
f()",
        ),
        ("crash", "import ctypes; ctypes.string_at(0)"),
        ("abort", "import os; os.abort()"),
        ("close everything", "import os\nos.closerange(0, 64)\nraise ValueError"),
        ("no Python", "def f(:"),
        ("a byte that ends strings", "x = '\0'"),
        ("half a character", "print('\\ud800')"),
    ] {
        let outcome = sandbox.run_program(code, "").unwrap();
        assert!(matches!(outcome, Err(Failure::Stopped(_) | Failure::TimeLimit)), "{name}: {outcome:?}");
    }
}
