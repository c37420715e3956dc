"""The document that everybody starts from."""

from __future__ import annotations

from irontree.cli.main import main
from irontree.domain.spec import read_requirements


def test_the_example_can_be_approved_as_it_is(capsys):
    assert main(["example"]) == 0
    requirements = read_requirements(capsys.readouterr().out.encode(), "SPEC.md")
    assert len(requirements.nodes) > 3
    assert not requirements.warnings
