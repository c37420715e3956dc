"""Lay flows/, tasks/, blocks/ and templates/ into the wheel as irontree.flows, irontree.tasks, ..."""

from setuptools import find_packages, setup

PREFECT_LAYER = ("flows", "tasks", "blocks", "templates")

parts = [f"{name}.{part}" for name in PREFECT_LAYER for part in find_packages(name)]

setup(
    packages=[*find_packages("src"), *(f"irontree.{name}" for name in (*PREFECT_LAYER, *parts))],
    package_dir={"": "src", **{f"irontree.{name}": name for name in PREFECT_LAYER}},
)
