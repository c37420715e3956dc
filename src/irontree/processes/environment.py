"""What a program that we start may see of the caller's environment (ruling R4)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

# What a program needs to find its tools, its own settings and the network. Whatever else the caller has (tokens of
# forges, PREFECT_*, GIT_*, CLAUDECODE, PYTHONPATH, VIRTUAL_ENV) stays with the caller. Proxies are passed:
# without them nothing works where they are needed, and who talks through one knows it anyway.
PASSED = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TERM", "COLORTERM", "TZ", "TMPDIR"),
        *("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"),
        *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy"),
        *("JAVA_HOME", "GOPATH", "GOROOT", "CARGO_HOME", "RUSTUP_HOME", "NVM_DIR", "PYENV_ROOT"),
        *("ANDROID_HOME", "SDKROOT", "DEVELOPER_DIR"),
    }
)


def scrubbed_environment(base: Mapping[str, str], allow: Iterable[str] = ()) -> dict[str, str]:
    """What of *base* agents, checks and hooks may see: an allow-list, LC_*, and the names in *allow*."""
    names = PASSED.union(allow)
    return {name: value for name, value in base.items() if name in names or name.startswith("LC_")}
