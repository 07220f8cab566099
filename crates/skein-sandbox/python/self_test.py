import socket, threading

found = []


def attempt(name, escape):
    try:
        escape()
        found.append(name)
    except (OSError, RuntimeError):
        pass


def many_threads():
    threading.stack_size(1 << 16)
    closed = threading.Lock()
    closed.acquire()
    for _ in range(THREADS):
        threading.Thread(target=closed.acquire, daemon=True).start()


attempt("files", lambda: open("/etc/passwd").read())
attempt("processes", lambda: __import__("posix").fork())
attempt("network", lambda: socket.socket())
attempt("signals", lambda: __import__("posix").kill(1, 0))
attempt("writes", lambda: open("/dev/../written", "w"))
attempt("threads", many_threads)
print("escapes:", *found)
