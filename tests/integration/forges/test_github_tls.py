"""A GitHub of one's own, with a certificate of one's own authority."""

from __future__ import annotations

import ipaddress
import ssl
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from irontree.errors import RemoteFailed, RemoteUnavailable
from irontree.forges import Location
from irontree.forges.github import GithubForge
from tests.support.github.server import GithubServer, serve
from tests.support.github.stage import github_settings
from tests.support.github.state import Hub


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A self-signed certificate for 127.0.0.1, and its key, in one PEM file."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "hub")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    plain = (serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path = tmp_path / "company.pem"
    path.write_bytes(
        made.public_bytes(serialization.Encoding.PEM) + key.private_bytes(serialization.Encoding.PEM, *plain)
    )
    return path


@pytest.fixture
def server(certificate: Path) -> Iterator[GithubServer]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with serve(Hub()) as running:
        running.socket = context.wrap_socket(running.socket, server_side=True)
        running.url = running.url.replace("http:", "https:")
        yield running


def forge(tmp_path: Path, server: GithubServer, ca_file: Path | None) -> GithubForge:
    location = Location(server.url, "ada/engine", ca_file)
    return GithubForge(replace(github_settings(tmp_path, server, "irontree"), location=location))


def test_a_certificate_of_an_unknown_authority_is_refused_with_the_setting_that_names_one(tmp_path, server):
    with pytest.raises(RemoteFailed, match="certificate") as refused:
        forge(tmp_path, server, None).about()
    assert "forge.ca_file" in str(refused.value.remedy)
    assert not isinstance(refused.value, RemoteUnavailable), "waiting cures nothing"


def test_the_authority_that_is_named_is_trusted(tmp_path, server, certificate):
    assert forge(tmp_path, server, certificate).about().full_name == "ada/engine"
