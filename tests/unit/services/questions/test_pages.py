"""The pages of the browser: a loop's tree and an issue's story, with links where a forge has any."""

from __future__ import annotations

import base64
from dataclasses import replace

from irontree.domain.state import Phase
from irontree.errors import ConfigRefused
from irontree.services.execution.steps import next_step
from irontree.services.questions.pages import MOST_DRAWN, question_text, story_text, tree_text
from tests.support.world import GREETING, MANUAL_TASK, TWO, accepts, make_scene, prepared

RUN = "http://127.0.0.1:4280/runs/flow-run/0c1a"


def drawn(page: str) -> str:
    """The picture in the page."""
    return base64.b64decode(page.partition("base64,")[2].partition(")")[0]).decode()


def test_a_loop_shows_each_task_with_its_state_and_its_links(tmp_path):
    scene = make_scene(tmp_path)
    loop = scene.start()
    scene.drive(loop)
    page = tree_text(scene.app, loop.id, {scene.number(TWO): RUN})
    number = scene.number(TWO)
    assert page.startswith("# 2 of 5 tasks are done\n")
    [row] = [line for line in page.splitlines() if f"[#{number}](" in line]
    assert f"[#{number}](https://forge.example/issues/{number})" in row
    assert f"[Part two]({RUN}) | {Phase.PENDING} | 1 / 4 |" in row
    assert [f"#{number} Part two: {Phase.PENDING}" in drawn(page), drawn(page).count("<rect")] == [True, 5]


def test_the_commit_of_a_task_is_a_link_once_it_is_published(tmp_path):
    scene = make_scene(tmp_path)
    loop = scene.start()
    scene.drive(loop)
    page, done, waiting = tree_text(scene.app, loop.id, {}), scene.state(GREETING), scene.state(TWO)
    assert f"[{done.code_ref[:7]}](https://forge.example/commit/{done.code_ref})" in page
    assert f"| {waiting.code_ref[:7]} |" in page


def test_a_tree_that_nobody_could_read_is_not_drawn(tmp_path):
    scene = make_scene(tmp_path)
    tasks = "".join(f"\n## Task {n}\n\n- [ ] it is there `$ has {n}.txt`\n" for n in range(MOST_DRAWN + 1))
    page = tree_text(scene.app, scene.start(f"# Many\n{tasks}").id, {})
    assert "data:image" not in page
    assert page.count("\n| [#") == MOST_DRAWN + 1


def test_the_story_of_an_issue_says_what_happened_and_leads_on(tmp_path):
    scene = make_scene(tmp_path)
    scene.drive(scene.start(MANUAL_TASK), prepared(accepts("fine")))
    page = story_text(scene.app, scene.number(), report="http://127.0.0.1:4280/artifacts/artifact/1")
    assert page.startswith(f"# #{scene.number()} Greeting: done\n")
    assert f"- Issue: [#{scene.number()}](https://forge.example/issues/{scene.number()})" in page
    assert "https://forge.example/commit/" in page
    assert "[the report](http://127.0.0.1:4280/artifacts/artifact/1)" in page
    assert "\n- Attempts: 1 of 4\n" in page
    assert [words in page for words in ("| attempt 1 of 4: the agent works |", "| done |")] == [True, True]


def test_the_open_question_stands_above_the_story(tmp_path):
    scene = make_scene(tmp_path)
    loop = scene.start(MANUAL_TASK)
    scene.drive(loop)
    question = question_text(scene.app, next_step(scene.app, scene.number(), loop.id))
    assert f"- Issue: #{scene.number()} https://forge.example/issues/{scene.number()}\n" in question
    assert story_text(scene.app, scene.number(), question=question).startswith(question.rstrip("\n"))


def test_where_the_forge_cannot_be_had_there_are_no_links_and_everything_else(tmp_path):
    def refuses():
        raise ConfigRefused("there is no token")

    scene = make_scene(tmp_path)
    scene.drive(scene.start(MANUAL_TASK))
    page = story_text(replace(scene.app, forge=refuses), scene.number())
    assert f"- Issue: #{scene.number()}\n" in page
    assert "](http" not in page
