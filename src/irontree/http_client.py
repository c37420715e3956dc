"""The HTTP client: imported here and nowhere else."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import httpx

from irontree.errors import ConfigRefused

HttpClient = httpx.Client
HttpResponse = httpx.Response
HttpError: Final = httpx.HTTPError
"""Any failure of a request, including an error response."""
Unreachable: Final = httpx.TransportError
"""No response: no connection, a broken one, or a time-out."""
UnusableAddress: Final = httpx.InvalidURL


def open_client(
    headers: Mapping[str, str], *, seconds: float, https: bool, ca_file: Path | None = None, direct: bool = False
) -> httpx.Client:
    """Open a client with a time-out of that many *seconds* that does not follow redirects.

    A *direct* one uses no proxy, whatever the environment names. Without *ca_file* the system's certificates
    are used. Raises ConfigRefused for a file that holds none.
    """
    # Plain http does not need the root certificates, which take 20 ms to load.
    verify = _trusting(ca_file) if https else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    return httpx.Client(
        headers=dict(headers), verify=verify, timeout=seconds, follow_redirects=False, trust_env=not direct
    )


def _trusting(ca_file: Path | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca_file)
    except OSError as error:  # ssl.SSLError is one
        raise ConfigRefused(
            f"cannot read certificates from {ca_file}: {error}",
            remedy="forge.ca_file: a file of certificates in PEM form",
        ) from error
