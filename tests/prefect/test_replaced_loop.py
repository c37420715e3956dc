"""An approval in an issue's form that adds tasks: the loop that has them goes on by itself (R7, R17)."""

from __future__ import annotations

from irontree.flows.runs.recovery import newest_run
from irontree.services.loops.choice import replacement
from irontree.services.proposals.sources import propose
from tests.prefect.terminal import typed
from tests.prefect.toys import GREETING, make_toy, served
from tests.support.soak import in_soak

OTHER = "\n## Other\n\n- [ ] it is there `$ test -f other.txt`\n"


def test_a_task_that_is_added_while_the_loop_asks_is_done_too(tmp_path, client):
    toy = make_toy(tmp_path, client, GREETING, "issue", "loop")
    loop_id = toy.authorise()
    spec = toy.root / "SPEC.md"
    spec.write_text(GREETING.replace("it is there", "it is really there") + OTHER)
    with served(toy):
        toy.go(loop_id)
        [asking] = toy.suspended()
        toy.answer(asking.id, toy.asked(asking.id).choices[0])
        toy.settle()
        following = replacement(toy.app, loop_id)
        assert following is None, "it has ended by now"
    assert toy.loop_events(loop_id)[-1] == "loop_cancelled"
    [after] = [found for found in toy.app.loops.ids() if found != loop_id]
    assert newest_run(toy.app, after).state_name == "Goal reached"
    assert [toy.state(number).done for number in (1, 2)] == [True, True]


@in_soak
def test_the_terminal_goes_on_with_the_loop_that_was_put_in_its_place(tmp_path, client, api_url):
    toy = make_toy(tmp_path / "toy", client, GREETING)
    loop_id = toy.authorise()
    spec = toy.root / "SPEC.md"
    spec.write_text(GREETING.replace("it is there", "it is really there") + OTHER)
    name = propose(toy.app, spec).name
    words = ["task", "resume", loop_id, "--answer", f"issue-1=approve:{name}"]
    with typed(toy.root, words, {"PREFECT_API_URL": api_url}, tmp_path / "log") as command:
        assert command.end() == 0, command.said
    assert "goes on in its place: other tasks were approved." in command.said
    assert [toy.state(number).done for number in (1, 2)] == [True, True]
