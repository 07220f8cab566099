"""Tells whether the environment it runs in holds some requirements, whole.

usage: venv_intact.py alone|with-dependencies REQUIREMENT...

Exits 0 when each required distribution (and, with-dependencies, all that they require) is installed at a fitting version and
every file its wheel recorded is there at its recorded size. Otherwise it exits 1 and says the first thing that is wrong.
"""

import csv
import importlib.metadata
import os
import sys

from pip._vendor.packaging.requirements import Requirement


def damaged_file(distribution):
    """The first recorded file that is missing or has another size, or None."""
    record = distribution.read_text("RECORD")
    if record is None:
        return "RECORD"
    for path, _, size in csv.reader(record.splitlines()):
        # Compiled files are recorded without a size: Python makes them again.
        if size:
            try:
                if os.stat(distribution.locate_file(path)).st_size != int(size):
                    return path
            except OSError:
                return path
    return None


def main(mode, requirements):
    queue = [Requirement(text) for text in requirements]
    seen = set()
    while queue:
        wanted = queue.pop()
        if (key := (wanted.name, frozenset(wanted.extras), str(wanted.specifier))) in seen:
            continue
        seen.add(key)
        try:
            found = importlib.metadata.distribution(wanted.name)
        except importlib.metadata.PackageNotFoundError:
            sys.exit(f"{wanted.name} is not installed")
        if not wanted.specifier.contains(found.version, prereleases=True):
            sys.exit(f"{wanted.name} is {found.version}, not {wanted.specifier}")
        if damaged := damaged_file(found):
            sys.exit(f"{wanted.name} is damaged: {damaged}")
        if mode == "with-dependencies":
            for dependency in map(Requirement, found.requires or []):
                extras = wanted.extras | {""}
                if dependency.marker is None or any(dependency.marker.evaluate({"extra": extra}) for extra in extras):
                    queue.append(dependency)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
