"""The names that mean something in a requirement document, as labels (`Type: bug`) and as section headings."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import Final, Literal

Kind = Literal[
    "type", "priority", "key", "depends_on", "target_files", "description", "criteria", "verification", "prose"
]

_NAMES: Final[dict[Kind, tuple[str, ...]]] = {
    "type": ("type", "类型"),
    "priority": ("priority", "优先级"),
    "key": ("key",),
    "depends_on": ("depends on", "dependencies", "blocked by", "依赖", "依赖于", "前置任务"),
    "target_files": ("target files", "files", "目标文件", "涉及文件", "文件"),
    "description": ("description", "summary", "描述", "问题描述", "摘要"),
    "criteria": (
        *("acceptance criteria", "acceptance", "criteria", "definition of done", "done when"),
        *("验收标准", "验收条件", "验收", "完成标准", "完成条件", "完成定义"),
    ),
    "verification": (
        *("verification", "verification commands", "checks"),
        *("验证", "验证命令", "验证方式", "验证方法", "检查"),
    ),
    "prose": (
        *("overview", "introduction", "background", "context", "motivation", "rationale", "goals", "non goals"),
        *("out of scope", "assumptions", "constraints", "risks", "notes", "details", "open questions", "questions"),
        *("references", "links", "see also", "glossary", "appendix"),
        *("概述", "背景", "上下文", "动机", "目标", "非目标", "范围外", "不在范围内", "假设", "约束", "风险"),
        *("备注", "说明", "详情", "待解决问题", "问题", "参考", "参考资料", "链接", "术语表", "附录"),
    ),
}
_KINDS: Final = {name: kind for kind, names in _NAMES.items() for name in names}
_LABELS: Final = [name for name, kind in _KINDS.items() if kind != "prose"]
_SHORTEST: Final = 3
"""Letters of a label that is cut short."""


def kind_of(name: str) -> Kind | None:
    """What a heading or label of this name holds; None if it has no meaning of its own."""
    return _KINDS.get(_folded(name))


def nearest_label(name: str) -> str | None:
    """The label that *name* probably misspells, if one is close."""
    close = get_close_matches(_folded(name), _LABELS, n=1, cutoff=0.8)
    return close[0].capitalize() if close else None


def label_for_short(name: str) -> str | None:
    """The label that *name* cuts short: `Prio`."""
    short = _folded(name)
    return next((label.capitalize() for label in _LABELS if len(short) >= _SHORTEST and label.startswith(short)), None)


def _folded(name: str) -> str:
    return re.sub(r"[\s_-]+", " ", name).strip(" :\uff1a").casefold()
