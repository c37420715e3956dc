"""What a storm is, by its seed, and what is kept of those that were made."""

from __future__ import annotations

import json

from tools.storms import __main__ as storms
from tools.storms.driver import Storm
from tools.storms.project import KINDS


def test_a_seed_chooses_the_kind_and_every_shot(tmp_path):
    made = [Storm(seed, tmp_path) for seed in (7, 7, 8)]
    one, same, other = [(storm.kind, storm.planned) for storm in made]
    assert one == same != other
    assert {Storm(seed, tmp_path).kind for seed in range(len(KINDS))} == {*KINDS}


def test_in_a_storm_without_a_remote_nothing_is_awaited_there(tmp_path):
    points = {kill.point for seed in range(0, 200 * len(KINDS), len(KINDS)) for kill in Storm(seed, tmp_path).planned}
    assert not [point for point in points if point.startswith("remote.git")]


def test_a_line_that_was_cut_off_is_made_again_and_complaints_are_a_failure(tmp_path, capsys):
    good = {"seed": 1, "kills": [], "restarts": 3, "questions": ["alpha: blocked: lock"], "complaints": []}
    path = tmp_path / "results.jsonl"
    path.write_text(json.dumps(good) + "\n" + '{"seed": 2, "kil')
    assert [row["seed"] for row in storms.results(path)] == [1]
    storms.keep({"seed": 2}, path)
    storms.keep({"seed": 3}, path)
    assert [row["seed"] for row in storms.results(path)] == [1, 2, 3]
    assert storms.summary([good]) == 0
    assert storms.summary([good, {**good, "seed": 3, "complaints": ["left over: a.lock"]}]) == 1
    assert "2 times: alpha: blocked: lock" in capsys.readouterr().out
