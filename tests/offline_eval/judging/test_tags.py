"""Verdicts in tags, as language models really write them."""

from hypothesis import given
from hypothesis import strategies as st

from knowgate.offline_eval.judging.llm_judge import Criterion

YES_NO = ("yes", "no")


def test_a_verdict_is_read_however_it_is_decorated() -> None:
    for text in [
        "<abstention>yes</abstention>",
        "<ABSTENTION>YES</ABSTENTION>",
        "< abstention > yes < / abstention >",
        "Reasons.\n```xml\n<abstention>yes</abstention>\n```",
        "<abstention>**Yes.**</abstention>",
        '<abstention>"yes"</abstention>',
        "<abstention><abstention>yes</abstention></abstention>",
        "<verdict><abstention>\n  yes\n</abstention></verdict>",
        "<abstention>yes",
        "<abstention>yes<abstention>",
        "<abstention>no</abstention> On second thought: <abstention>yes</abstention>",
        "<abstention>yes</abstention> not <abstention>perhaps</abstention>",
        "<abstention>yes</abstention></abstention>",
        "<abstention><b>no</b></abstention><abstention>yes</abstention>.",
    ]:
        found = Criterion.parse_tag(text, "abstention", YES_NO)
        assert found is not None
        assert found.outcome == "yes"


def test_anything_else_is_no_verdict() -> None:
    for text in [
        "",
        "yes",
        "<abstention></abstention>",
        "<abstention>maybe</abstention>",
        "<abstention>yes, it declines</abstention>",
        "<abstention>yes or no</abstention>",
        "<abstention>yes. More words",
        "abstention>yes</abstention>",
        "<abstentions>yes</abstentions>",
        "</abstention>yes<abstention>",
        "&lt;abstention&gt;yes&lt;/abstention&gt;",
        "<factuality>yes</factuality>",
    ]:
        assert Criterion.parse_tag(text, "abstention", YES_NO) is None


@given(
    st.lists(
        st.one_of(
            st.sampled_from(
                [
                    "<t>",
                    "</t>",
                    "< T >",
                    "</ t>",
                    "<t",
                    "t>",
                    "yes",
                    "NO",
                    "**",
                    "```",
                    "\n",
                    "&lt;t>",
                ]
            ),
            st.text(max_size=5),
        ),
        max_size=30,
    )
)
def test_no_text_breaks_the_parser_or_makes_up_an_outcome(parts: list[str]) -> None:
    text = "".join(parts)
    found = Criterion.parse_tag(text, "t", YES_NO)
    if found is not None:
        assert found.outcome in YES_NO
        assert found.reasoning in text


def test_a_huge_message_is_read_in_no_time() -> None:
    text = "<abstention>" * 50_000 + "x" * 1_000_000 + "<abstention>no</abstention>"
    found = Criterion.parse_tag(text, "abstention", YES_NO)
    assert found is not None
    assert (found.outcome, len(found.reasoning)) == ("no", 8_000)
