"""What is made of traces: who went the way, in which order, and which layers count."""

from __future__ import annotations

import json
import sys

from tools.trace_way import Call, Traced, by_layer, counted, layer_of, markdown, on_the_way, read_traces
from tools.tracing import Tracer, is_loading

FLOW = Traced(
    ("python", "-m", "prefect.engine"), (Call(3, "flows/issue.py", "issue"), Call(9, "flows/loop.py", "loop"))
)
JANITOR = Traced(("python", "-m", "prefect.engine"), (Call(4, "flows/janitor.py", "janitor"),))
SERVING = Traced(("python", "-m", "irontree", "serve"), (Call(5, "src/irontree/cli/serve.py", "run"),))
COMMAND = Traced(("irontree", "task", "SPEC.md"), (Call(2, "src/irontree/cli/task.py", "run"),))


def test_calls_are_in_their_order_whichever_process_made_them():
    assert [call.file for call in on_the_way([FLOW, COMMAND], 0, 8)] == ["src/irontree/cli/task.py", "flows/issue.py"]


def test_who_only_looks_on_is_left_out_and_what_a_schedule_starts_unless_the_way_leads_through_it():
    traces = [JANITOR, SERVING]
    assert on_the_way(traces, 0, 8) == []
    assert [call.function for call in on_the_way(traces, 0, 8, ["flows/janitor.py"])] == ["janitor"]


def test_layers_are_folders_of_the_package():
    files = ("src/irontree/domain/requirements/tasks.py", "src/irontree/app.py", "flows/server/private.py")
    assert [layer_of(file) for file in files] == ["domain", "irontree", "flows"]


def test_some_layers_are_counted_and_all_are_listed():
    calls = [
        Call(1, "src/irontree/domain/plan.py", "f"),
        Call(2, "src/irontree/cli/main.py", "main"),
        Call(3, "src/irontree/cli/main.py", "entry"),
        Call(4, "src/irontree/cli/main.py", "main"),
    ]
    found = by_layer(calls)
    assert found["cli"] == {"src/irontree/cli/main.py": ["main", "entry"]}
    assert counted(found) == 1
    assert markdown("A way", found).splitlines()[-2:] == [
        "* **cli** (1): `main.py`",
        "* **domain** (not counted; 1): `plan.py`",
    ]


def test_a_line_that_was_cut_off_is_none(tmp_path):
    whole = json.dumps([1.5, str(tmp_path / "flows" / "issue.py"), "issue"])
    (tmp_path / "7.jsonl").write_text(f'["irontree"]\n{whole}\n[1.6, "/')
    assert read_traces(tmp_path, tmp_path) == [Traced(("irontree",), (Call(1.5, "flows/issue.py", "issue"),))]


def test_functions_of_ours_are_written_down_and_nothing_else(tmp_path):
    tracer = Tracer(tmp_path, (__file__,))

    def called() -> None:
        tracer.called(sys._getframe(), "call", None)

    called()
    called()
    [None for _ in [tracer.called(sys._getframe(), "call", None)]]
    tracer.called(sys._getframe(1), "call", None)
    [_, line, *_] = [json.loads(line) for path in tmp_path.iterdir() for line in path.read_text().splitlines()]
    assert line[1:] == [__file__, f"{sys._getframe().f_code.co_qualname}.<locals>.called"]


def test_what_is_called_for_an_import_is_known(tmp_path, monkeypatch):
    (tmp_path / "loaded_for_this.py").write_text("import sys\nhere = lambda: sys._getframe()\nframe = here()\n")
    monkeypatch.syspath_prepend(tmp_path)
    import loaded_for_this

    assert is_loading(loaded_for_this.frame)
    assert not is_loading(loaded_for_this.here())
