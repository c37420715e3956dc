"""Work that goes on until a test has killed what it kills, and how that ends if nobody does."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from irontree.flows.runs import runs
from tests.integration.crash.laboratory import faults, outcome
from tests.prefect.toys import GREETING, Toy, make_toy, served
from tests.support.processes import Witness
from tests.support.soak import SOAK

PLAIN = 'echo whole > "$IRONTREE_TASK_KEY.txt"'
CHAIN = f"{GREETING}\n## Close\n\nDepends on: Greeting\n\n- [ ] it is there `$ test -f close.txt`\n"
SPEC = CHAIN if SOAK else GREETING
"""Each task costs the start of a process; `irontree demo --kill` goes on with further ones in `make test` too."""


def checked_by(command: str) -> str:
    return f"verify:\n  commands: [{{name: tests, run: {json.dumps(command)}}}]\n"


class Held:
    """A project whose agent, or else whose check, works in its first attempt until it is released."""

    def __init__(self, folder: Path, client, witness: Witness, *, at: str = "agent") -> None:
        self.folder = folder
        (folder / "hold").touch()
        wait = f"""\
if mkdir {folder}/started 2>&-; then
  {witness.hold}
  echo half > half.txt
  while [ -e {folder}/hold ]; do sleep 0.05; done
  rm half.txt
fi
"""
        agent, check = (wait, "true") if at == "agent" else ("", wait)
        self.toy = make_toy(folder / "held", client, SPEC, agent=f"{agent}{PLAIN}", settings=checked_by(check))

    def release(self) -> None:
        (self.folder / "hold").unlink()


def undisturbed_outcome(folder: Path) -> dict[str, Any]:
    """What there is after a run that nobody disturbed."""
    with runs.connect() as client:
        settings = checked_by("true")
        toy = make_toy(folder, client, SPEC, "issue", "loop", agent=PLAIN, settings=settings)
        loop_id = toy.authorise()
        with served(toy):
            assert toy.go(loop_id).state_name == "Goal reached"
        return dict(outcome(toy.app))


def numbered_without_gaps(found: Mapping[str, Any]) -> dict[str, Any]:
    """A kill between taking a number and writing its issue skips that number: no number is ever given twice."""
    issues = {number: issue for number, issue in found["issues"].items() if issue}
    places = {str(number): place for place, number in enumerate(sorted(issues), start=1)}

    def renumbered(value: Any) -> Any:
        if isinstance(value, str):
            return re.sub(r"#(\d+)", lambda match: f"#{places.get(match[1], match[1])}", value)
        return type(value)(map(renumbered, value)) if isinstance(value, (list, tuple)) else value

    states = {key: renumbered(state) for key, state in found["states"].items()}
    return {
        **found,
        "states": states,
        "commits": renumbered(found["commits"]),
        "issues": renumbered([*issues.values()]),
    }


def ends_as(toy: Toy, undisturbed: dict[str, Any]) -> bool:
    """Whether nothing is lost, doubled or left over."""
    assert numbered_without_gaps(outcome(toy.app)) == numbered_without_gaps(undisturbed)
    assert faults(toy.app) == []
    return True
