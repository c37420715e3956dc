"""What a line runs, in the many ways that a shell has (R18); what it only looks at is the work."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest

from irontree.domain.command_lines import folders_of, named_by

FILES = ("app.py", "greet", "checks/accept.py", "scripts/accept.sh")
SCRIPT = r"""
test "$(sh scripts/accept.sh)" = ok
[ "$(scripts/accept.sh)" = ok ]
[ "`scripts/accept.sh`" = ok ]
out="$(sh scripts/accept.sh)" && echo $out
bash -c 'scripts/accept.sh;true'
"$ROOT/scripts/accept.sh"
sh "${DIR:-.}/scripts/accept.sh"
"$(git rev-parse --show-toplevel)/scripts/accept.sh"
CHECK=scripts/accept.sh; sh $CHECK
cd -- scripts && ./accept.sh
cd -P scripts; ./accept.sh
find scripts -name '*.sh' | while read -r f; do sh "$f" || exit 1; done
for f in $(find scripts -name '*.sh'); do sh $f; done
bash <(cat scripts/accept.sh)
eval "$(cat scripts/accept.sh)"
trap 'scripts/accept.sh' EXIT
unshare -r scripts/accept.sh
BASH_ENV=scripts/accept.sh bash -c :
"""
MODULE = """
python -m cProfile checks/accept.py
python -m coverage run checks/accept.py
tox -c checks/accept.py
PYTEST_ADDOPTS='-c checks/accept.py' pytest
"""
PROGRAM = r"""
CHECK=./greet; $CHECK
find . -name '*.py' -exec ./greet {} \;
>log ./greet
trap './greet' EXIT
direnv exec . ./greet
bash -c './greet;true'
"""
LOOKS = """
if grep -q hello scripts/accept.sh; then ! test -s scripts/accept.sh; fi
shellcheck scripts/accept.sh
"""
WORK = """
test "$(./greet)" = hello
out="$(./greet --help)" && test -n "$out"
./greet | grep -q hello
"""


def lines(text: str) -> list[str]:
    return text.strip().splitlines()


def runs(line: str, path: str) -> bool:
    named = named_by([line], FILES, folders_of(FILES))
    return path in named.written or any(fnmatchcase(path, pattern) for pattern in named.run)


@pytest.mark.parametrize("line", lines(SCRIPT))
def test_a_script_is_run_however_it_is_written(line):
    assert runs(line, "scripts/accept.sh")


@pytest.mark.parametrize("line", lines(MODULE))
def test_what_looks_like_a_check_is_one_wherever_it_stands(line):
    assert runs(line, "checks/accept.py")


@pytest.mark.parametrize("line", lines(PROGRAM))
def test_a_file_that_is_written_as_a_program_is_run(line):
    assert runs(line, "greet")


@pytest.mark.parametrize("line", lines(LOOKS))
def test_a_file_that_is_only_looked_at_is_not_run(line):
    assert not runs(line, "scripts/accept.sh")


@pytest.mark.parametrize("line", lines(WORK))
def test_a_program_whose_output_is_judged_is_the_work(line):
    assert not runs(line, "greet")
