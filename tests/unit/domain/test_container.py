"""What `container` in the configuration may say."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from irontree.config_file import read_config
from irontree.domain.places import OPEN
from irontree.domain.settings import Container
from irontree.errors import ConfigRefused

IMAGE = f"sha256:{'ab' * 32}"


@pytest.mark.parametrize("image", [IMAGE, "ab" * 32, f"python@{IMAGE}", f"git.example.org:5000/team/tools:3@{IMAGE}"])
def test_an_image_is_named_by_its_digest(image):
    assert Container(image=image).image == image


@pytest.mark.parametrize(
    "image", ["python", "python:3.12", "python@sha256:ab", f"--privileged@{IMAGE}", f"a b@{IMAGE}"]
)
def test_a_name_that_may_mean_another_image_tomorrow_is_refused_with_the_way_to_its_digest(image):
    with pytest.raises(ConfigRefused, match=r"docker image inspect --format '\{\{\.Id\}\}'"):
        read_config(f"container:\n  image: '{image}'\n", "config.yml")


@pytest.mark.parametrize("mount", ["data", "./data", "/a:b", "/a:/b:rw", "/a:/b:/c", "/a:/b:ro:ro", ":/a", "", ":ro"])
def test_a_mount_is_of_absolute_paths(mount):
    with pytest.raises(ValidationError, match="expected /SOURCE"):
        Container(image=IMAGE, mounts=(mount,))


@pytest.mark.parametrize("user", ["", " ", "-u", "a b"])
def test_a_user_is_one_word_and_no_option(user):
    with pytest.raises(ValidationError):
        Container(image=IMAGE, user=user)


def test_without_an_image_nothing_is_contained_and_nobody_may_think_that_it_is():
    assert read_config("container:\n", "config.yml").policy(None, "main").place == OPEN
    with pytest.raises(ConfigRefused, match="without `image` nothing runs in a container"):
        read_config("container:\n  network: false\n", "config.yml")


def test_all_that_runs_is_contained_in_the_same():
    config = read_config(
        f"container:\n  image: {IMAGE}\nverify:\n  reviewers:\n    - {{name: second, command: [look]}}\n", "config.yml"
    )
    policy = config.policy(None, "main")
    assert policy.place.container
    assert policy.place.container.image == IMAGE
    assert {policy.agent.place, policy.workspace.place, policy.reviewers[0].place} == {policy.place}
