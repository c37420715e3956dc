"""What is run where nothing is configured: the protocol's detection table (phase 5), shown whole at approval."""

from __future__ import annotations

from typing import Final

from irontree.domain.plan import CheckCommand, DetectionRow


def _row(files: str, **commands: str) -> DetectionRow:
    return DetectionRow(
        files=tuple(files.split()),
        commands=tuple(CheckCommand(name=name, run=run) for name, run in commands.items()),
    )


def _yarn(script: str) -> str:
    """`--if-present` for a program that has no such option."""
    return f"if grep -q '\"{script}\" *:' package.json; then yarn {script}; fi"


# The first row whose files are all at the top of the repository wins; a file may be a glob pattern.
# Scripts that package.json does not define are skipped, as the contract asks, by the commands themselves.
DETECTION: Final = (
    _row(
        "package.json pnpm-lock.yaml",
        install="pnpm install --frozen-lockfile",
        build="pnpm run --if-present build",
        test="pnpm run --if-present test",
        lint="pnpm run --if-present lint",
    ),
    _row(
        "package.json yarn.lock",
        install="yarn install --frozen-lockfile",
        build=_yarn("build"),
        test=_yarn("test"),
        lint=_yarn("lint"),
    ),
    _row(
        "package.json",
        install="npm ci",
        build="npm run build --if-present",
        test="npm test --if-present",
        lint="npm run lint --if-present",
    ),
    _row("pyproject.toml", test="pytest"),
    _row("setup.py", test="pytest"),
    _row("Cargo.toml", build="cargo build", test="cargo test", lint="cargo clippy -- -D warnings"),
    _row("Package.swift", build="swift build", test="swift test"),
    _row("*.xcodeproj", test='xcodebuild -scheme "$(basename *.xcodeproj .xcodeproj)" test'),
    _row("Makefile", test="make test"),
)
