"""The door of `irontree.ports`: each name comes from its module, and that one alone is imported for it."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest

import irontree.ports


@pytest.mark.parametrize("name", irontree.ports.__all__)
def test_every_name_is_the_one_that_its_module_defines(name):
    found = getattr(irontree.ports, name)
    homes = [home for home, names in irontree.ports._HOMES.items() if name in names]
    assert [getattr(import_module(f"irontree.ports.{home}"), name) for home in homes] == [found]


def test_no_other_name_is_promised():
    promised = {name for names in irontree.ports._HOMES.values() for name in names}
    assert promised == set(irontree.ports.__all__)


def test_a_name_that_nobody_defines_is_an_error():
    with pytest.raises(ImportError, match="Frge"):
        exec("from irontree.ports import Frge")


def test_a_name_brings_no_module_but_its_own():
    script = "import sys; from irontree.ports import Clock; sys.exit('irontree.ports.forge' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
