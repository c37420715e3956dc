"""Whether to ask a forge again, and when: a decision without a network in it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from irontree.errors import AccessRefused, RemoteFailed, RemoteUnavailable
from irontree.forges.github_client import refusal
from irontree.forges.http_answers import PATIENCE, TRIES, HttpAnswer, NoAnswer, limited_until, pause_before_next

NOW = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)
WHERE = "https://github.com/ada/engine"
RESET = str(int((NOW + timedelta(minutes=20)).timestamp()))
PRIMARY = HttpAnswer(
    403,
    {"x-ratelimit-remaining": "0", "x-ratelimit-reset": RESET},
    {"message": "API rate limit exceeded for user ID 1."},
)
SECONDARY = HttpAnswer(403, {"retry-after": "20"}, {"message": "You have exceeded a secondary rate limit."})


def answer(status: int, message: str = "", **headers: str) -> HttpAnswer:
    return HttpAnswer(status, {name.replace("_", "-"): value for name, value in headers.items()}, {"message": message})


def again(outcome: HttpAnswer | NoAnswer, verb: str = "GET", tries: int = 1, waited: float = 0.0) -> float | None:
    return pause_before_next(outcome, verb, tries, waited, NOW)


@pytest.mark.parametrize("outcome", [answer(500), answer(502), answer(503), NoAnswer("reset")])
def test_a_question_is_asked_again_after_a_moment_that_grows(outcome):
    assert [again(outcome, tries=tries) for tries in (1, 2, TRIES)] == [1.0, 2.0, None]


@pytest.mark.parametrize("outcome", [answer(500), answer(503, retry_after="1"), NoAnswer("reset")])
@pytest.mark.parametrize("verb", ["POST", "PATCH", "DELETE"])
def test_what_may_have_happened_is_never_repeated(outcome, verb):
    assert again(outcome, verb) is None


@pytest.mark.parametrize("verb", ["GET", "POST"])
def test_what_was_not_looked_at_is_repeated_when_the_forge_says(verb):
    assert again(SECONDARY, verb) == 20.0


def test_nobody_waits_longer_than_a_minute_in_all():
    assert again(SECONDARY, waited=PATIENCE - 20) == 20.0
    assert again(SECONDARY, waited=PATIENCE - 19) is None
    assert again(PRIMARY) is None


def test_a_certificate_that_is_not_trusted_is_told_at_once():
    assert again(NoAnswer("[SSL: CERTIFICATE_VERIFY_FAILED] self-signed certificate")) is None


@pytest.mark.parametrize("status", [200, 201, 304, 400, 401, 403, 404, 409, 410, 422])
def test_an_answer_is_an_answer(status):
    assert again(answer(status)) is None


@pytest.mark.parametrize(
    ("limited", "moment"),
    [
        (PRIMARY, NOW + timedelta(minutes=20)),
        (SECONDARY, NOW + timedelta(seconds=20)),
        (answer(429), NOW + timedelta(seconds=60)),
        (answer(429, retry_after="Fri, 02 Jan 2026 12:00:30 GMT"), NOW + timedelta(seconds=30)),
        (answer(403, "You have exceeded a secondary rate limit."), NOW + timedelta(seconds=60)),
        (answer(403, x_ratelimit_remaining="0", x_ratelimit_reset="1"), NOW + timedelta(seconds=1)),
        (answer(403, x_ratelimit_remaining="0", x_ratelimit_reset=f"{RESET}000000"), NOW + timedelta(days=1)),
        (answer(403, x_ratelimit_remaining="0", x_ratelimit_reset="9" * 5000), NOW + timedelta(days=1)),
        (answer(429, retry_after="99999999999999"), NOW + timedelta(days=1)),
        (answer(429, retry_after="9" * 5000), NOW + timedelta(days=1)),
        (answer(429, retry_after="Fri, 02 Jan 2126 12:00:30 GMT"), NOW + timedelta(days=1)),
        (answer(403, "Resource not accessible", x_ratelimit_remaining="4999", x_ratelimit_reset=RESET), None),
        (answer(500, retry_after="5"), None),
    ],
)
def test_a_limit_says_until_when(limited, moment):
    assert limited_until(limited, NOW) == moment


@pytest.mark.parametrize("limited", [PRIMARY, SECONDARY])
def test_a_limit_is_an_outage_that_says_when_it_ends(limited):
    """The halt is answered by a timer."""
    error = refusal(limited, NOW, WHERE)
    assert isinstance(error, RemoteUnavailable)
    assert error.not_before == limited_until(limited, NOW)
    assert "UTC" in error.message


def test_an_outage_may_say_when_it_ends():
    error = refusal(answer(503, "down", retry_after="3600"), NOW, WHERE)
    assert isinstance(error, RemoteUnavailable)
    assert error.not_before == NOW + timedelta(hours=1)


@pytest.mark.parametrize(
    ("refused", "reason", "remedy"),
    [
        (answer(401, "Bad credentials"), "authentication", "GITHUB_TOKEN"),
        (answer(403, "Resource not accessible by personal access token"), "permission", "write access"),
        (answer(403, "Repository was archived so is read-only."), "archived", "unarchive"),
        (answer(404, "Not Found"), "not-found", "renamed or deleted"),
        (answer(410, "Issues are disabled for this repo"), "issues-disabled", "enable issues"),
    ],
)
def test_what_repeating_cannot_cure_says_what_would(refused, reason, remedy):
    error = refusal(refused, NOW, WHERE)
    assert isinstance(error, AccessRefused)
    assert (error.reason, remedy in str(error.remedy), WHERE in error.message) == (reason, True, True)


def test_anything_else_says_what_the_forge_said():
    data = {
        "message": "Validation Failed",
        "errors": [
            {"resource": "Issue", "field": "title", "code": "missing_field"},
            {"message": "No commits between main and x"},
            "plain",
        ],
    }
    error = refusal(HttpAnswer(422, {}, data), NOW, WHERE)
    assert type(error) is RemoteFailed
    assert error.message.endswith("(422): Validation Failed; title missing_field; No commits between main and x; plain")


def test_a_page_of_a_proxy_is_quoted_in_short():
    error = refusal(HttpAnswer(502, {}, f"<html>\n<h1>Bad gateway</h1>{'x' * 5000}"), NOW, WHERE)
    assert isinstance(error, RemoteUnavailable)
    assert "<h1>Bad gateway</h1>" in error.message
    assert len(error.message) < 300
