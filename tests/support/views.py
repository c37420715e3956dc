"""A value for every template, with the same text wherever people or programs write; and texts that mean harm."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from irontree.domain.checks import Coverage
from irontree.domain.comments import MAX_TOLD, plain, slim
from irontree.domain.events import CATEGORY
from irontree.domain.halt import RULE, RULES
from irontree.domain.instructions import Instructions, filled
from irontree.domain.plan import Criterion, PublishPolicy, Shell
from irontree.domain.text import one_line
from irontree.services.delivery.comments import CommentView, comment_template
from irontree.services.delivery.issue_text import Part
from irontree.services.questions.pages import OpenForm, form_template
from irontree.services.views.history import AttemptView, DeniedView
from irontree.services.work.prompts import Asked, Delivered, Passage, SaidSince, StepView, Surroundings
from tests.support.hostile_texts import KEY_MARKER, MARKER, NOW, SHA
from tests.support.prompts import mention_prompt, plan_prompt, round_prompt
from tests.support.store import standing
from tests.support.view_values import (
    CHILD,
    STATUS,
    coverage,
    failure,
    member,
    node,
    outsiders,
    plan,
    policy,
    results,
    shown,
    step,
)


def issue(text: str) -> dict[str, object]:
    return {
        "node": node(text),
        "plan": plan(text),
        "close_on_done": "auto",
        "marker": KEY_MARKER,
        "parent": "#3",
        "depends_on": ("#4", "#5"),
        "current": defaultdict(lambda: "x"),
        "checks": (Shell(name="x", run=text or "x"),),
        "standing": "**Waiting for its turn.**",
        "parts": (Part(text, 0, True),),
    }


def evidence(basis: str, text: str) -> dict[str, object]:
    return {
        "basis": basis,
        "recorded_at": NOW,
        "code_ref": SHA,
        "anchor": SHA,
        "results": results(text),
        "reviewer": text,
        "notes": text,
    }


def brief(text: str) -> dict[str, object]:
    return {
        "number": 7,
        "forge": "GitHub",
        "url": "https://example.com/7",
        "node": node(text),
        "status": STATUS,
        "spec_path": text,
        "published_at": NOW,
        "parent": "#3",
        "commands": (text, "make test"),
        "coverage": coverage(text),
        "children": (
            (text, CHILD),
            (text, replace(CHILD, task_key="setup", issue_number=5, completion_basis=None, code_ref=None)),
        ),
        "halt_reason": "blocked",
        "manual_close": text,
        "acceptance": {"reasons": (text, text), "anchor": SHA, "recorded_at": NOW, "accept_note": text},
        "failure": failure(text),
        "external": {"event": "issue_closed", "detected_at": NOW, "action": text},
        "execution": {
            "attempt": 1,
            "attempts": 4,
            "started_at": NOW,
            "completed_at": NOW,
            "commit": SHA,
            "files_changed": (text,),
            "commands_run": (text,),
            "notes": text,
        },
        "report_path": ".mino/reports/issue-7/report.md",
        "evidence": evidence("accepted", text),
        "docs_path": None,
        "outcome": "pass",
        "warnings": (text,),
    }


def report(text: str) -> dict[str, object]:
    return {
        "number": 7,
        "title": text,
        "anchor": SHA,
        "outcome": text,
        "date": NOW,
        "environment": {"python": text},
        "confined": False,
        "results": results(text),
        "coverage": coverage(text),
        "claimed": "",
        "observed": "",
        "budgets": (),
        "findings": (text,),
        "warnings": (text,),
        "recipe": (text,),
        "promoted_doc": text,
        "rationale": text,
        "note": text,
    }


def notes(text: str) -> dict[str, object]:
    return {
        "number": 7,
        "title": text,
        "date": NOW[:10],
        "anchor": SHA,
        "update": False,
        "environment": {"python": text},
        **dict.fromkeys(("setup", "checks", "criteria"), (text, text)),
        "files": (text,) * 30,
    }


def around(text: str) -> Surroundings:
    return Surroundings(
        document=text,
        title=text,
        introduction=Passage(text, 7),
        parents=((text, Passage(text, 7)), (text, Passage("", 0))),
        tasks=(f"- {one_line(text)}", "- Another (this task)"),
        tasks_left_out=2,
        delivered=(Delivered(text, text, SHA[:7]),),
        delivered_left_out=1,
        quoted=(),
    )


def prompt(text: str) -> dict[str, object]:
    return {
        "number": 7,
        "node": node(text),
        "step": StepView(2, 4, text),
        "attempt": 2,
        "attempts": 4,
        "member": member(text),
        "around": around(text),
        "commands": (text, "make test"),
        "protected": "ask",
        "told": told(text),
        "said": (SaidSince(text, text),),
        "report_file": ".irontree-report.json",
        "failure": failure(text),
        "answered": (asked(text),),
        "continues": True,
        "goes_on": False,
        "quotes": (outsiders(text),),
    }


def told(text: str) -> Instructions:
    form = f"[Action Report]\n**Cause**: {{root_cause}}\n{text}"
    return Instructions(action="issue_assigned", kind="bug", hint=text, steps=(text, "git push"), report=form)


def asked(text: str) -> Asked:
    return Asked(text, text, text, text)


def request(text: str) -> dict[str, object]:
    covered = (Coverage(Criterion(text=text or "x"), text),)
    return {"number": 7, "node": node(text), "parent": "#3", "coverage": covered, "closes": True}


def review_prompt(text: str) -> dict[str, object]:
    return {
        "member": member(text),
        "number": 7,
        "is_request": False,
        "node": node(text),
        "base": SHA,
        "anchor": SHA,
        "answer_file": "/tmp/verdict.json",
        "problems": (text, text),
        "quotes": (outsiders(text),),
    }


def comment(text: str) -> CommentView:
    told = {"title": "Something is in the way", "reason": text, "action": text, "attempt": 2, "attempts": 4}
    asked = {
        "answers": ((f"/skip {text}", f"skip {text}"), ("/accept", "accept it")),
        "gated": (text,),
        "gate": text,
        "allow_gate": text,
    }
    return CommentView(number=7, marker=MARKER, evidence=shown(text), output=text, publish=text, **told, **asked)


def answer(text: str) -> dict[str, object]:
    return {"marker": MARKER, "command": text, "reason": text, "remedy": text, "answers": (text, "/accept")}


def reply(text: str) -> dict[str, object]:
    return {
        "report": filled(slim("[Action Report]\n**Cause**: {root_cause}"), {"root_cause": plain(one_line(text))})[
            :MAX_TOLD
        ],
        "title": text,
        "marker": MARKER,
        "asked_for": True,
        "basis": None,
        "done_by": text,
        "to_check": (text,) * 50,
        "remark": True,
        "commit_url": f"https://example.com/{SHA}",
        "docs_url": text,
        "document": text,
        "close_it": True,
        "close_command": text,
    }


def form(text: str, reason: str) -> dict[str, object]:
    return {
        "number": 7,
        "title": text,
        "url": "#7 https://example.com/7",
        "what": "Something is in the way",
        "reason": text,
        "choices": RULE[reason].choices,
        "answer": f"--answer 'issue-7=accept:{text}'",
        "remedy": text,
        "attempt": 4,
        "attempts": 4,
        "anchor": SHA,
        "publish": PublishPolicy(remote="origin", target_branch="main"),
        "coverage": coverage(text),
        "evidence": shown(text),
        "warnings": (text,),
        "failure": failure(text),
        "decisive": text,
        "asked": asked(text),
        "printed": "",
        "said": text,
        "report_path": ".mino/reports/issue-7/report.md",
        "revision": "1a2b3c4d5e6f7a8b",
        "before": (text,),
        "changes": (text,),
        "approval": approval(text),
        "diff": text,
        "request": "",
        "gate": "",
        "denied": DeniedView((text,), (text,)),
        "attempts_alike": (AttemptView(1, SHA, (text, text), text, text, text), AttemptView(2, "", (), "", text, "")),
    }


def loop_form(text: str, reason: str) -> dict[str, object]:
    waiting = (
        {"number": 7, "title": text, "phase": text, "waits_for": ("auth-core", "setup")},
        {"number": 8, "title": text, "phase": text, "waits_for": ()},
    )
    return {
        "loop_id": "2026-01-02-1200-a3f8b2",
        "reason": text,
        "choices": RULE[reason].choices,
        "answer": text,
        "done": 3,
        "total": 6,
        "budget_used": 50,
        "budget": 50,
        "spent": None,
        "waiting": waiting,
    }


def approval(text: str) -> dict[str, object]:
    shown = {"depth": 0, "status": "new", "number": None, "commands": ()}
    shown |= {"reviewed": True, "gate_waits": False, "gate_why": ""}
    new = {"node": node(text), "coverage": coverage(text), **shown}
    of_step = {**new, "node": step(text), "coverage": (), "gate_waits": True, "gate_why": text}
    return {
        "repository": "toy",
        "name": "1a2b3c4d5e6f7a8b",
        "spec_path": text,
        "tasks": (
            new,
            {**new, "depth": 1, "status": "re_adopted", "coverage": (), "number": 7, "commands": (text,)},
            of_step,
        ),
        "policy": policy(text),
        "detection": policy(text).detection,
        "checks": policy(text).checks,
        "configured": True,
        "steps": True,
        "browsed": True,
        "switches": True,
        "divides": True,
        "budget": 60,
        "loop_mode": True,
        "answer": "",
        "command": "irontree task requirements.md",
        "guarded": (),
        "tracker": "",
        "lookalikes": ((text, text),),
        "estimate": text,
        "trivial": (text,),
        "warnings": (text,),
        "told": (told(text),),
        "quotes": (outsiders(text),),
        "before": (text,),
        "changes": (text,),
        "diff": text,
        "loop_id": "2026-01-02-1200-a3f8b2",
        "goal": text,
        "intent": text,
        "query": text,
        "excluded": (text,),
        "questions": (text,),
        "in_full": True,
        "undisplayed": (text,),
    }


def tree(text: str) -> dict[str, object]:
    row = {
        "number": 7,
        "depth": 1,
        "title": text,
        "state": text,
        "attempts": "1 / 4",
        "commit": SHA,
        "run": "https://example.com/run",
        "address": text,
        "commit_address": f"https://example.com/{SHA}",
    }
    return {"done": 1, "total": 2, "picture": "", "rows": (row,)}


def story(text: str) -> dict[str, object]:
    return {
        "number": 7,
        "title": text,
        "state": text,
        "attempts": "1 of 4",
        "happened": ((NOW, text),),
        "question": "",
        "address": text,
        "commit": SHA,
        "commit_address": f"https://example.com/{SHA}",
        "request": "#3 https://example.com/3",
        "report": text,
    }


def needs_you(text: str) -> dict[str, object]:
    return {"rows": (OpenForm(NOW, text, text, text, "https://example.com/run"),)}


OF_VALUES: Final[Mapping[str, Callable[[str], dict[str, object]]]] = {
    "briefs/brief.md": brief,
    "reports/report.md": report,
    "comments/reply.md": reply,
    **{form_template(r.reason): partial(loop_form, reason=r.reason) for r in RULES if r.asked_of == "loop"},
    "issues/body.md": issue,
    "issues/request.md": request,
    "issues/whole.md": lambda text: {"number": 7, "node": node(text), "parts_done": ((8, node(text)),)},
    "reports/notes.md": notes,
    "prompts/run.md": prompt,
    "prompts/plan.md": plan_prompt,
    "prompts/mention.md": mention_prompt,
    "prompts/round.md": round_prompt,
    "prompts/discussion.md": mention_prompt,
    "prompts/review.md": review_prompt,
    "comments/not-taken.md": answer,
    "comments/parts.md": lambda text: {"parts": (Part(text, 2, False),), "marker": MARKER},
    "comments/proposal.md": lambda text: {
        "number": 7,
        "by": text,
        "claimed": ((text, text),),
        "repeated": ((text, text),),
        "absent": (text,),
        "questions": (),
        "approval": approval(text) | {"policy": policy(text).model_copy(update={"team": ()})},
        "last": False,
        "rounds": 3,
        "marker": MARKER,
    },
    "comments/counted.md": lambda text: {"marker": MARKER, "command": text, "so_far": text, "edited": text},
    "comments/approval-asked.md": lambda text: {"approval": approval(text), "marker": MARKER, "whole": True},
    "forms/standing.md": lambda text: {
        "name": "0a1b2c3d4e5f6071",
        "standing": standing(
            policy(text).model_copy(update={"discussion": "everybody"}), assignment=True, reviews=True
        ),
        "posts_to": text,
        "work": {**approval(text), "tasks": (), "steps": False},
    },
    "forms/branch.md": lambda text: {"document": text, "refusal": text, "where": text},
    "artifacts/tree.md": tree,
    "artifacts/issue.md": story,
    "artifacts/needs-you.md": needs_you,
}
"""Templates that are given their values by name."""
STATUS_COMMENTS: Final = [comment_template(event) for event in CATEGORY if CATEGORY[event] == "audible"]
OF_VIEWS: Final[Mapping[str, tuple[str, Callable[[str], object]]]] = {
    **dict.fromkeys(STATUS_COMMENTS, ("comment", comment)),
    **{form_template(r.reason): ("form", partial(form, reason=r.reason)) for r in RULES if r.asked_of == "issue"},
    "forms/intake.md": ("approval", approval),
}
"""Templates that are given a view, and its name there."""
TEMPLATES: Final = (*OF_VALUES, *OF_VIEWS)


def case(template: str, text: str) -> Mapping[str, object]:
    """The values of that template; a template without a case is a KeyError, and so a failed test."""
    if template in OF_VALUES:
        return OF_VALUES[template](text)
    name, view = OF_VIEWS[template]
    return {name: view(text)}
