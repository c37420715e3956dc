"""Ordinary Markdown becomes the tree that its author meant (docs/requirement-format.md)."""

from __future__ import annotations

from textwrap import dedent

import pytest

from irontree.domain.plan import Criterion
from irontree.domain.spec import MAX_BYTES, read_requirements, reads_as


def read(text, **options):
    return read_requirements(dedent(text).encode(), "SPEC.md", **options)


def one(body):
    """The only task of a document with this body under its heading."""
    (node,) = read(f"# Task\n\n{dedent(body)}\n\n- [ ] it works (manual)\n").nodes
    return node


def criteria(body):
    (node,) = read(f"# Task\n\n{dedent(body)}").nodes
    return node.criteria


def tree(text):
    return {node.title: node.parent for node in read(text).nodes}


class TestHeadings:
    def test_a_single_heading_is_a_task(self):
        (node,) = read("# Fix the login\n- [ ] it works").nodes
        assert (node.task_key, node.title, node.shape, node.executability) == (
            "fix-the-login",
            "Fix the login",
            "atomic",
            "executable",
        )

    def test_the_only_first_level_heading_with_tasks_below_is_the_title(self):
        found = read("Hello.\n\n# Shop\n\nWe sell.\n\n## Notes\n\nMore.\n\n## Cart\n- [ ] x")
        assert (found.title, found.introduction) == ("Shop", "Hello.\n\nWe sell.\n\n**Notes**\n\nMore.")
        assert [node.task_key for node in found.nodes] == ["cart"]

    def test_a_first_level_heading_with_nothing_but_sections_below_is_a_task(self):
        (node,) = read("# Fix\n## Description\nIt is broken.\n## Acceptance criteria\n- It works").nodes
        assert (node.title, node.description, node.criteria[0].text) == ("Fix", "It is broken.", "It works")

    def test_with_several_first_level_headings_all_are_tasks(self):
        text = "# A\n- [ ] x\n# B\n## C\n- [ ] x"
        assert tree(text) == {"A": None, "B": None, "C": "b"}
        assert read(text).title == ""

    def test_a_first_level_heading_behind_others_is_no_title(self):
        assert tree("## A\n- [ ] x\n# B\n## C\n- [ ] x") == {"A": None, "B": None, "C": "b"}

    def test_nesting_makes_composites(self):
        nodes = read("# T\n## A\n### B\n#### C\n- [ ] x\n### D\n- [ ] x").nodes
        assert [(n.task_key, n.parent, n.shape, n.executability) for n in nodes] == [
            ("a", None, "composite", "container"),
            ("a-b", "a", "composite", "container"),
            ("a-b-c", "a-b", "atomic", "executable"),
            ("a-d", "a", "atomic", "executable"),
        ]

    def test_levels_may_be_skipped(self):
        assert tree("# T\n## A\n##### B\n- [ ] x\n#### C\n- [ ] x\n## D\n- [ ] x") == {
            "A": None,
            "B": "a",
            "C": "a",
            "D": None,
        }

    def test_underlined_headings_count(self):
        assert tree("Shop\n====\n\nCart\n----\n- [ ] x") == {"Cart": None}

    @pytest.mark.parametrize(
        "hidden",
        [
            "```\n## B\n```",
            "~~~md\n## B\n~~~",
            "    ## B",
            "> ## B",
            "- ## B",
            "<!--\n## B\n-->",
            "<div>\n## B\n</div>",
        ],
    )
    def test_headings_in_code_quotes_lists_comments_and_html_are_text(self, hidden):
        assert tree(f"# T\n## A\n- [ ] x\n\n{hidden}\n") == {"A": None}

    @pytest.mark.parametrize(
        ("heading", "title"),
        [
            ("Use `git clone` **now**", "Use git clone now"),
            ("See [the *docs*](https://example.org) ![a cat](c.png)", "See the docs a cat"),
            ("Tom &amp; \\*Jerry\\*  ##", "Tom & *Jerry*"),
            ("Show <b>{{ name }}</b>", "Show <b>{{ name }}</b>"),
            ("[By reference][1]", "By reference"),
            ("דף הבית", "דף הבית"),
        ],
    )
    def test_a_title_is_the_heading_without_its_markup(self, heading, title):
        (node,) = read(f"# {heading}\n- [ ] x\n\n[1]: https://example.org").nodes
        assert node.title == title

    def test_a_node_knows_the_line_of_its_heading_in_the_file_as_it_was_given(self):
        nodes = read("\n\n\n# T\r\n\r\n\r\n\r\n## A\r\n- [ ] x\r\r\r## B\n- [ ] x").nodes
        assert [node.line for node in nodes] == [8, 12]

    def test_front_matter_is_no_heading_and_no_text_but_part_of_the_revision(self):
        plain = "# T\n## A\n- [ ] x"
        found = read(f"---\ntitle: Shop\nowner: me\n---\n{plain}")
        assert (found.title, found.introduction) == ("T", "")
        assert found.nodes[0].model_dump(exclude={"line"}) == read(plain).nodes[0].model_dump(exclude={"line"})
        assert found.revision != read(plain).revision

    def test_a_rule_at_the_top_is_no_front_matter(self):
        assert tree("---\n\n## A\n- [ ] x\n\n---\n\n## B\n- [ ] x") == {"A": None, "B": None}

    def test_a_byte_order_mark_is_no_part_of_the_document(self):
        with_mark = read_requirements(b"\xef\xbb\xbf# A\n- [ ] x", "SPEC.md")
        assert with_mark == read("# A\n- [ ] x")

    def test_a_document_of_the_largest_size_is_read(self):
        text = "# A\n- [ ] x\n"
        data = (text + "\n" + "a" * (MAX_BYTES - len(text) - 1)).encode()
        assert len(data) == MAX_BYTES
        assert read_requirements(data, "SPEC.md").nodes[0].title == "A"


class TestFields:
    @pytest.mark.parametrize(
        "fields",
        [
            "Type: bug\nPriority: low\nTarget files: a.py, b.py",
            "type: Bug\npriority: 9\ntarget-files: `a.py`, `b.py`",
            "**Type:** bug\n**Priority**: low\n__Target files:__ a.py, `b.py`",
            "*Type*: `bug`\n_Priority:_ Low\nFiles: a.py,b.py",
            "- Type: bug\n- Priority: low\n- Target files:\n  - a.py\n  - b.py",
            "* **Type:** bug\n* **Priority:** low\n* **Target files:** a.py, b.py",
            "Type: bug\n\nPriority: low\n\nTarget files:\n\n- `a.py` (new)\n- `b.py`",
            "Type:bug\nPriority:\nlow\nTarget files:\na.py\nb.py",
            "## Type\nbug\n## Priority\nLow\n## Target files\n- a.py\n- b.py",
        ],
    )
    def test_all_usual_ways_of_writing_fields_mean_the_same(self, fields):
        node = read(f"# Task\n- [ ] x\n# Other\n\n{fields.replace('## ', '### ')}\n\n### Done when\n- x").nodes[1]
        assert (node.type, node.priority, node.target_files) == ("bug", 9, ("a.py", "b.py"))
        assert node.description == ""

    def test_without_fields_a_task_is_a_feature_without_priority_and_files(self):
        node = one("")
        assert (node.type, node.priority, node.target_files, node.depends_on) == ("feature", None, (), ())

    @pytest.mark.parametrize(("word", "priority"), [("high", 1), ("Medium", 5), ("low", 9), ("1", 1), ("9", 9)])
    def test_priorities_are_one_to_nine_or_words(self, word, priority):
        assert one(f"Priority: {word}").priority == priority

    def test_fields_are_found_behind_a_description_too(self):
        node = one("People forget their passwords.\n\nType: bug\nMore text.")
        assert (node.type, node.description) == ("bug", "People forget their passwords.\n\nMore text.")

    def test_underscores_in_file_names_are_no_markup(self):
        assert one("Target files: src/__init__.py, tests/*_test.py").target_files == (
            "src/__init__.py",
            "tests/*_test.py",
        )

    def test_a_file_named_twice_is_one_file(self):
        assert one("Target files: a.py, b.py, a.py").target_files == ("a.py", "b.py")

    def test_a_key_replaces_the_titles_up_to_its_task(self):
        nodes = read("# T\n## Accounts\nKey: auth\n### Core\n- [ ] x\n### Form\nKey: login\n- [ ] x").nodes
        assert [node.task_key for node in nodes] == ["auth", "auth-core", "login"]

    def test_what_looks_like_a_field_in_prose_is_prose(self):
        text = "Note: see https://example.org: it is good.\n\nContext: we had this before."
        assert one(text).description == text


class TestDescription:
    def test_everything_else_is_the_description_in_its_order(self):
        node = one(
            """\
            Type: bug
            First *line*.

            - a plain list
            - of two

            ```python
            print("kept  as it is")
            ```

            | a | b |
            |---|---|

            <!-- not
            this -->

            > quoted

            [link]: https://example.org
            """
        )
        assert node.description == (
            "First *line*.\n\n- a plain list\n- of two\n\n```python\n"
            'print("kept  as it is")\n```\n\n| a | b |\n|---|---|\n\n> quoted\n\n[link]: https://example.org'
        )

    def test_sections_of_text_keep_their_names_so_that_out_of_scope_stays_out(self):
        node = one("Intro.\n\n## Description\n\nWhat.\n\n## Out of scope:\n\nMail.\n\n### Not even\n\nLetters.")
        assert node.description == "Intro.\n\nWhat.\n\n**Out of scope**\n\nMail.\n\n### Not even\n\nLetters."

    @pytest.mark.parametrize(
        "label", ["Description: What it is.", "Description:\nWhat it is.", "- Summary: What it is."]
    )
    def test_a_description_may_have_its_label(self, label):
        assert one(label).description.removeprefix("- ") == "What it is."

    def test_text_that_no_section_understands_stays(self):
        text = "## Verification\n\nLook at it closely.\n\n- by day\n\n## Acceptance criteria\n\nAll of:\n\n- x (manual)"
        (node,) = read(f"# Task\n{text}").nodes
        assert node.description == (
            "**Verification**\n\nLook at it closely.\n\n- by day\n\n**Acceptance criteria**\n\nAll of:"
        )


class TestCriteria:
    def test_task_items_count_wherever_they_stand(self):
        found = criteria(
            """\
            - [ ] open
            - [x] ticked
            - plain
              - [ ] nested

            1. [ ] numbered

            ## Notes

            * [X] in notes

            ## Verification

            - [ ] among the checks
            """
        )
        assert [c.text for c in found] == ["open", "ticked", "nested", "numbered", "in notes", "among the checks"]

    @pytest.mark.parametrize(
        "text",
        [
            "## Acceptance criteria\n- a\n- b",
            "## acceptance-criteria\n1. a\n2. b",
            "## Done when\n- [ ] a\n\n* b",
            "## Acceptance\n### Good\n- a\n### Bad\n- b",
            "Acceptance criteria:\n- a\n- b",
            "**Acceptance criteria**\n\n- a\n- b",
            "- Acceptance criteria:\n  - a\n  - b",
            "Acceptance: a\n\n- [ ] b",
        ],
    )
    def test_all_items_under_the_heading_or_label_are_criteria(self, text):
        (node,) = read(f"# Task\n{text}").nodes
        assert [c.text for c in node.criteria] == ["a", "b"]
        assert node.description == ""

    def test_only_the_list_behind_a_label_belongs_to_it(self):
        (node,) = read("# Task\n**Acceptance criteria:**\n\n- a\n\nAlso:\n\n- not this").nodes
        assert [c.text for c in node.criteria] == ["a"]
        assert node.description == "Also:\n\n- not this"

    def test_an_item_may_go_over_several_lines_and_have_details(self):
        found = criteria("- [ ] The form\n  refuses:\n  - an empty name\n  - no mail\n    - at all\n\n  always")
        assert [c.text for c in found] == ["The form refuses: always: an empty name; no mail; at all"]

    def test_nested_task_items_are_criteria_of_their_own(self):
        found = criteria("- [ ] outer\n  - detail\n  - [ ] inner\n    - more")
        assert [c.text for c in found] == ["outer: detail", "inner: more"]

    def test_an_item_with_more_than_text_stays_readable_in_the_description(self):
        (node,) = read("# Task\n- [ ] answers\n  ```json\n  {}\n  ```\n- [ ] fast").nodes
        assert [c.text for c in node.criteria] == ["answers", "fast"]
        assert node.description == "- [ ] answers\n  ```json\n  {}\n  ```"

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("plain", Criterion(text="plain")),
            ("looks nice (manual)", Criterion(text="looks nice", manual=True)),
            ("(Manual) looks nice", Criterion(text="looks nice", manual=True)),
            ("looks (manual): nice", Criterion(text="looks: nice", manual=True)),
            ("says `(manual)`", Criterion(text="says `(manual)`")),
            ("clean (check: lint)", Criterion(text="clean", check="lint")),
            ("adds up `$ make sums`", Criterion(text="adds up", command="make sums")),
            ("adds up: `$ make sums`.", Criterion(text="adds up", command="make sums")),
            ("adds up `` $ echo `date` ``", Criterion(text="adds up", command="echo `date`")),
            ("`$ make sums`", Criterion(text="`$ make sums`", command="make sums")),
            ("uses `x` `$ a` `$ b`", Criterion(text="uses `x` `$ a`", command="b")),
            ("nice `$ a` (manual)", Criterion(text="nice", manual=True, command="a")),
            ("costs `$5`", Criterion(text="costs `$5`")),
            ("$ not code", Criterion(text="$ not code")),
        ],
    )
    def test_marks_are_taken_out_of_the_text(self, text, expected):
        assert criteria(f"- [ ] {text}") == (expected,)

    def test_a_composite_keeps_its_criteria(self):
        nodes = read("# A\n- [ ] whole\n## B\n- [ ] part\n# C\n- [ ] x").nodes
        assert [c.text for c in nodes[0].criteria] == ["whole"]


class TestVerification:
    @pytest.mark.parametrize(
        "text",
        [
            "## Verification\n- `$ a`\n- `$ b -c`",
            "## Checks\n1. $ a\n2. $ b -c",
            "## verification commands\n```console\n$ a\nprinted\n$ b -c\n```",
            "## Verification\n$ a\n`$ b -c`",
            "## Verification\n- first:\n  - `$ a` must pass\n- then:\n  ```\n  $ b -c\n  ```",
            "Verification: `$ a`, `$ b -c`",
            "**Verification:**\n\n- `$ a`\n\n```\n$ b -c\n```",
            "- Verification:\n  - `$ a`\n  - `` $ b -c ``",
        ],
    )
    def test_lines_and_code_that_begin_with_a_dollar_are_commands(self, text):
        assert one(text).verification == ("a", "b -c")

    def test_a_command_keeps_its_own_characters(self):
        command = "grep -E '^a_b_c|\\*' *.py && echo \"<ok>\" # $HOME {{ x }}"
        assert one(f"## Verification\n```\n$ {command}\n```").verification == (command,)
        assert one(f"## Verification\n- `$ {command}`").verification == (command,)

    def test_commands_elsewhere_are_text(self):
        assert one("Run this:\n\n```\n$ rm -rf /\n```\n\n`$ b`\n\n- `$ c`").verification == ()

    def test_a_task_item_among_the_checks_is_a_criterion_with_its_command(self):
        (node,) = read("# Task\n## Verification\n- [ ] passes `$ a`\n  - detail\n- `$ b`").nodes
        assert node.verification == ("b",)
        assert [c.text for c in node.criteria] == ["passes `$ a`: detail"]


SHOP = "# T\n## Log in, log out\n- [ ] x\n## Accounts\n### Tests\n- [ ] x\n## Reports\n### Tests\n- [ ] x\n"


class TestDependencies:
    @pytest.mark.parametrize(
        ("names", "keys"),
        [
            ("Accounts", ["accounts"]),
            ("accounts, REPORTS", ["accounts", "reports"]),
            ("Log in, log out", ["log-in-log-out"]),
            ("Reports, Log in,  log out, Accounts", ["accounts", "log-in-log-out", "reports"]),
            ("Accounts / Tests", ["accounts-tests"]),
            ("accounts/tests, `reports-tests`", ["accounts-tests", "reports-tests"]),
            ('"Accounts", “Reports”.', ["accounts", "reports"]),
            ("[Accounts](#accounts), **Reports**", ["accounts", "reports"]),
            ("#12, #3", ["accounts", "elsewhere"]),
            ("none", []),
            ("\u2014", []),
            ("Accounts, Accounts,", ["accounts"]),
        ],
    )
    def test_names_are_keys_titles_paths_and_issues(self, names, keys):
        found = read(f"{SHOP}## Last\nDepends on: {names}\n- [ ] x", known_issues={12: "accounts", 3: "elsewhere"})
        assert found.nodes[-1].depends_on == tuple(keys)

    @pytest.mark.parametrize(
        "text",
        [
            "Depends on: Accounts, Reports",
            "Depends on:\n- Accounts\n- Reports",
            "- Depends on:\n  - Accounts\n  - Reports",
            "- **Blocked by:** Reports, Accounts",
            "### Dependencies\n- Accounts\n- Reports",
            "### Depends on\nReports, Accounts",
        ],
    )
    def test_they_may_be_a_line_or_a_list(self, text):
        assert read(f"{SHOP}## Last\n{text}\n\n### Done when\n- x").nodes[-1].depends_on == ("accounts", "reports")

    def test_a_list_item_is_one_name_first_and_names_with_commas_second(self):
        text = f"{SHOP}## Last\nDepends on:\n- Log in, log out\n- Accounts, Reports\n\n### Done when\n- x"
        assert read(text).nodes[-1].depends_on == ("accounts", "log-in-log-out", "reports")

    def test_a_key_wins_over_a_title(self):
        nodes = read(
            "# T\n## Old\nKey: new\n- [ ] x\n## New\nKey: other\n- [ ] x\n## C\nDepends on: new\n- [ ] x"
        ).nodes
        assert nodes[-1].depends_on == ("new",)

    def test_a_title_with_a_slash_is_a_title_first(self):
        nodes = read("# T\n## Read/write\n- [ ] x\n## B\nDepends on: read / write\n- [ ] x").nodes
        assert nodes[-1].depends_on == ("readwrite",)

    def test_titles_with_markup_can_be_named_with_and_without_it(self):
        nodes = read("# T\n## Fix `__init__`\n- [ ] x\n## B\nDepends on: Fix `__init__`\n- [ ] x\n").nodes
        assert nodes[-1].depends_on == ("fix-init",)
        nodes = read("# T\n## Fix `__init__`\n- [ ] x\n## B\nDepends on: Fix __init__\n- [ ] x\n").nodes
        assert nodes[-1].depends_on == ("fix-init",)

    def test_parts_wait_for_what_their_composite_waits_for(self):
        nodes = read(
            "# T\n## A\n- [ ] x\n## B\nDepends on: A\n### C\n#### D\n- [ ] x\n### E\nDepends on: C\n- [ ] x"
        ).nodes
        assert [node.depends_on for node in nodes] == [(), ("a",), ("a",), ("a",), ("a", "b-c")]


class TestRequirements:
    def test_the_source_is_normal_text_and_reads_the_same_again(self):
        found = read("# A  \r\n\r\n\r\n- [ ] x\r\n")
        assert found.source == "# A\n\n- [ ] x"
        assert read(found.source).revision == found.revision

    def test_a_change_of_text_that_no_field_holds_changes_the_revision(self):
        assert read("# A\n- [ ] x\n\nold").revision != read("# A\n- [ ] x\n\nnew").revision

    def test_warnings_come_in_the_order_of_their_lines(self):
        found = read("# A\n- [ ] x\n# B\n## Checks\n- `$ true`\n## Done when\n- x `$ :`")
        assert [warning.line for warning in found.warnings] == [1, 5, 7]


@pytest.mark.parametrize(
    ("data", "same"),
    [
        ("# Caf\u00e9\n\nText\n".encode(), True),
        ("\ufeff# Cafe\u0301  \r\n\r\n\r\nText".encode(), True),
        ("# Caf\u00e9\n\nText.\n".encode(), False),
        ("# Caf\u00e9\n\nText\n".encode("latin-1"), False),
    ],
)
def test_a_document_reads_as_its_approved_source_whatever_its_line_ends_and_its_way_to_write_an_accent(data, same):
    assert reads_as(data, "# Caf\u00e9\n\nText") is same


def test_a_document_that_reads_as_the_source_has_its_nodes():
    data = b"\xef\xbb\xbf# One\r\n\r\n- [ ] works (check: t)\r\n"
    approved = read_requirements(data, "SPEC.md")
    again = read_requirements(approved.source.encode(), "SPEC.md")
    assert reads_as(data, approved.source)
    assert [node.digest for node in again.nodes] == [node.digest for node in approved.nodes]
