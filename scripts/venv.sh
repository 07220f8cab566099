# shellcheck shell=bash
# Makes the project's Python environments and mends broken ones. Sourced, with the repository root as working directory.
#
# An environment is judged by what is in it (venv_intact.py), never by a stamp, so a half-finished install, a deleted file or
# a dangling link all look the same: not whole, made again.

step() { printf '==> %s\n' "$*" >&2; }

fail() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# Prints the first Python between 3.10 and 3.14 that can make environments; PYTHON names one to use instead.
find_python() {
  local candidate seen="" candidates=(python3 python3.14 python3.13 python3.12 python3.11 python3.10)
  if [ -n "${PYTHON:-}" ]; then candidates=("$PYTHON"); fi
  for candidate in "${candidates[@]}"; do
    if "$candidate" -I -c 'import sys, venv, ensurepip; sys.exit(not (3, 10) <= sys.version_info < (3, 15))' 2>/dev/null; then
      printf '%s\n' "$candidate"
      return
    fi
    if command -v "$candidate" >/dev/null; then
      seen="$seen, $candidate is $("$candidate" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null || echo broken)"
    fi
  done
  fail "Python 3.10 to 3.14 with the venv module is needed${seen}." \
    "Install one (Debian, Ubuntu: apt install python3 python3-venv) or name it: PYTHON=/path/to/python3 $0"
}

# need_disk GIGABYTES WHAT: fails where this disk has less room than WHAT takes while it is being installed.
need_disk() {
  local free_kb
  free_kb=$(df -Pk . | awk 'NR == 2 { print $4 }')
  if [ "$free_kb" -lt $(($1 * 1024 * 1024)) ]; then
    fail "$2 needs $1 GB of free disk in $PWD; there are $((free_kb / 1024 / 1024)) GB. Make room and run this again."
  fi
}

# venv_is_whole VENV alone|with-dependencies REQUIREMENT...: succeeds where VENV has all of them; else prints what is wrong.
venv_is_whole() {
  if [ ! -x "$1/bin/python" ]; then
    echo "no Python in it"
    return 1
  fi
  "$1/bin/python" -I scripts/venv_intact.py "${@:2}" 2>&1 | tail -n 1
  return "${PIPESTATUS[0]}"
}

# ensure_venv VENV GIGABYTES alone|with-dependencies REQUIREMENT...
ensure_venv() {
  local venv=$1 gigabytes=$2 python
  shift 2
  if venv_is_whole "$venv" "$@" >/dev/null; then
    step "$venv is whole: $(printf '%s ' "${@:2}")"
    return
  fi
  python=$(find_python)
  (
    flock --nonblock 9 || { step "waiting for another set-up to finish" && flock 9; }
    remake_venv "$venv" "$gigabytes" "$python" "$@"
  ) 9<scripts/venv.sh
}

# The slow path of ensure_venv, under its lock.
remake_venv() {
  local venv=$1 gigabytes=$2 python=$3 wrong options=()
  shift 3
  wrong=$(venv_is_whole "$venv" "$@") && return
  if [ -e "$venv" ] || [ -L "$venv" ]; then
    step "making $venv again: $wrong"
  fi
  # Of a link only the link goes; what it points to belongs to someone else.
  if [ -L "$venv" ]; then rm "$venv"; else rm -rf "$venv"; fi
  need_disk "$gigabytes" "$venv"
  step "installing into $venv with $("$python" --version): $(printf '%s ' "${@:2}")"
  "$python" -I -m venv "$venv"
  if [ "$1" = alone ]; then options+=(--no-deps); fi
  if [ ! -t 2 ]; then options+=(--quiet); fi  # a terminal gets pip's progress bars
  # A temporary folder of its own: wheels of gigabytes do not fit into many a /tmp.
  mkdir "$venv/tmp"
  TMPDIR="$PWD/$venv/tmp" "$venv/bin/python" -I -m pip install --disable-pip-version-check "${options[@]}" "${@:2}" >&2 ||
    fail "pip could not install into $venv (its message is above). Check the network or pip's configuration and run this again."
  rm -rf "$venv/tmp"
  wrong=$(venv_is_whole "$venv" "$@") || fail "$venv is not whole after its installation: $wrong"
}
