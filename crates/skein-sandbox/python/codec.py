"""Plain values over a pipe: the strict codec that both of a check's processes speak.

Only built-in types cross, as tagged text of known length; a subclass crosses as its built-in base, and whatever else an
answer makes stays where it is and crosses as a number. Decoding builds built-in values and nothing else.
"""

import posix

MAX_DEPTH = 64
MAX_FRAME = 1 << 24


def encode(value, export):
    """`value` as bytes; `export` gives the number of what has no literal."""
    pieces = []
    put_value(value, pieces, export, MAX_DEPTH)
    return b"".join(pieces)


def put_value(value, pieces, export, depth):
    if depth == 0:
        raise ValueError("a value nests too deep")
    if value is None:
        pieces.append(b"N")
    elif value is True or value is False:
        pieces.append(b"T" if value else b"F")
    elif isinstance(value, int):
        pieces.append(b"I%s;" % (int.__format__(value, "x").encode()))
    elif isinstance(value, float):
        pieces.append(b"R%s;" % float.__repr__(value).encode())
    elif isinstance(value, complex):
        parts = float.__repr__(value.real), float.__repr__(value.imag)
        pieces.append(b"C%s;%s;" % (parts[0].encode(), parts[1].encode()))
    elif isinstance(value, str):
        text = str.encode(value, "utf-8", "surrogatepass")
        pieces.append(b"S%d:%s" % (len(text), text))
    elif isinstance(value, (bytes, bytearray)):
        pieces.append(b"B%d:%s" % (len(value), bytes(value)))
    elif isinstance(value, dict):
        entries = list(dict.items(value))
        pieces.append(b"D%d:" % len(entries))
        for key, item in entries:
            put_value(key, pieces, export, depth - 1)
            put_value(item, pieces, export, depth - 1)
    else:
        for base, tag in ((list, b"L"), (tuple, b"U"), (set, b"E"), (frozenset, b"Z")):
            if isinstance(value, base):
                items = list(base.__iter__(value))
                pieces.append(b"%s%d:" % (tag, len(items)))
                for item in items:
                    put_value(item, pieces, export, depth - 1)
                return
        pieces.append(b"H%d;" % export(value))


def decode(data, resolve):
    """The value of `data`; `resolve` makes what stands for a number. Raises ValueError on anything malformed."""
    reader = Reader(data, resolve)
    value = reader.value(MAX_DEPTH)
    if reader.position != len(data):
        raise ValueError("bytes after a value")
    return value


class Reader:
    def __init__(self, data, resolve):
        self.data = data
        self.position = 0
        self.resolve = resolve

    def value(self, depth):
        if depth == 0:
            raise ValueError("a value nests too deep")
        tag = self.data[self.position : self.position + 1]
        self.position += 1
        if tag == b"N":
            return None
        if tag == b"T":
            return True
        if tag == b"F":
            return False
        if tag == b"I":
            return int(self.until(b";"), 16)
        if tag == b"R":
            return float(self.until(b";"))
        if tag == b"C":
            return complex(float(self.until(b";")), float(self.until(b";")))
        if tag == b"H":
            return self.resolve(int(self.until(b";")))
        if tag == b"S":
            return self.run().decode("utf-8", "surrogatepass")
        if tag == b"B":
            return self.run()
        if tag == b"D":
            return {self.value(depth - 1): self.value(depth - 1) for _ in range(self.count())}
        for base, known in ((list, b"L"), (tuple, b"U"), (set, b"E"), (frozenset, b"Z")):
            if tag == known:
                return base([self.value(depth - 1) for _ in range(self.count())])
        raise ValueError("unknown tag")

    def until(self, mark):
        end = self.data.index(mark, self.position)
        text = self.data[self.position : end].decode("ascii")
        self.position = end + 1
        return text

    def count(self):
        count = int(self.until(b":"))
        if not 0 <= count <= len(self.data):
            raise ValueError("a count beyond the data")
        return count

    def run(self):
        count = self.count()
        end = self.position + count
        if end > len(self.data):
            raise ValueError("a text beyond the data")
        run = self.data[self.position : end]
        self.position = end
        return run


class Channel:
    """Frames in both directions: a length in digits, a line end, that many bytes."""

    def __init__(self, incoming, outgoing):
        self.incoming = incoming
        self.outgoing = outgoing
        self.pending = b""

    def send(self, data):
        frame = memoryview(b"%d\n%s" % (len(data), data))
        while frame:
            frame = frame[posix.write(self.outgoing, frame) :]

    def receive(self):
        """The next frame; EOFError when the other side is gone, ValueError when it breaks the form."""
        while b"\n" not in self.pending:
            if len(self.pending) > 12:
                raise ValueError("a frame without a length")
            self.pending += self.read(1 << 16)
        header, rest = self.pending.split(b"\n", 1)
        size = int(header)
        if not 0 <= size <= MAX_FRAME:
            raise ValueError("a frame too long")
        pieces, held = [rest], len(rest)
        while held < size:
            piece = self.read(1 << 20)
            pieces.append(piece)
            held += len(piece)
        data = b"".join(pieces)
        self.pending = data[size:]
        return data[:size]

    def read(self, size):
        piece = posix.read(self.incoming, size)
        if not piece:
            raise EOFError("the other process is gone")
        return piece


def read_all(descriptor):
    pieces = []
    while True:
        piece = posix.read(descriptor, 1 << 20)
        if not piece:
            posix.close(descriptor)
            return b"".join(pieces)
        pieces.append(piece)
