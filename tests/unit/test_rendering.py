"""The filters of the templates: whatever is in a value stays inside its fence, span, cell or section."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from irontree import rendering


def test_a_description_keeps_its_own_markdown():
    text = "Use `<b>`:\n\n```html\n<!-- kept -->\n```\n\n- a\n- b"
    assert rendering.markdown(text) == text


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
@settings(max_examples=300)
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
