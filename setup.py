"""Lay flows/, tasks/, blocks/ and templates/ into the wheel as irontree.flows, irontree.tasks, ..."""

from setuptools import find_packages, setup

PREFECT_LAYER = ("flows", "tasks", "blocks", "templates")

setup(
    packages=[*find_packages("src"), *(f"irontree.{name}" for name in PREFECT_LAYER)],
    package_dir={"": "src", **{f"irontree.{name}": name for name in PREFECT_LAYER}},
)
