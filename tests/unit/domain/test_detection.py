"""The detection table is the contract's: which files, in which order, and what is run (protocol, phase 5)."""

from __future__ import annotations

from irontree.domain.checks import DETECTION

NODE = ["install", "build", "test", "lint"]
# Typed by hand from the contract. Scripts that a package does not define are skipped by the commands themselves.
CONTRACT = [
    ("package.json pnpm-lock.yaml", "pnpm", NODE),
    ("package.json yarn.lock", "yarn", NODE),
    ("package.json", "npm", NODE),
    ("pyproject.toml", "pytest", ["test"]),
    ("setup.py", "pytest", ["test"]),
    ("Cargo.toml", "cargo", ["build", "test", "lint"]),
    ("Package.swift", "swift", ["build", "test"]),
    ("*.xcodeproj", "xcodebuild", ["test"]),
    ("Makefile", "make", ["test"]),
]


def test_the_rows_are_the_contracts_in_its_order():
    assert [
        (" ".join(row.files), row.commands[0].run.split()[0], [command.name for command in row.commands])
        for row in DETECTION
    ] == CONTRACT


def test_the_commands_are_the_contracts():
    runs = [command.run for row in DETECTION for command in row.commands]
    assert {
        *("pnpm install --frozen-lockfile", "yarn install --frozen-lockfile", "npm ci", "pytest", "make test"),
        *("cargo build", "cargo test", "cargo clippy -- -D warnings", "swift build", "swift test"),
    } <= set(runs)
