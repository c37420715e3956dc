"""Where the private server listens, and what is said when it cannot."""

from __future__ import annotations

import os
import socket
import threading
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from irontree.errors import EnvironmentRefused, ServerUnavailable
from irontree.flows.server.connection import Address, ListenAddress
from irontree.flows.server.listening import listen, require_free, who_has

IPV6 = Path("/proc/net/if_inet6").exists()


def hang_up(somebody: socket.socket) -> None:
    """End every connection at once: who only listens is waited for, 5 s each time."""
    with suppress(OSError):
        while True:
            somebody.accept()[0].close()


@pytest.fixture
def taken():
    """A port that somebody has who is no server of ours."""
    with socket.create_server(("127.0.0.1", 0)) as somebody:
        answering = threading.Thread(target=hang_up, args=(somebody,))
        answering.start()
        yield somebody.getsockname()[1]
        somebody.shutdown(socket.SHUT_RDWR)
        answering.join()


@pytest.fixture
def free(taken) -> int:
    """A port that nobody has."""
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        return nobody.getsockname()[1]


def both(port: int) -> list[tuple[str, int]]:
    """Loopback, as far as this machine has it."""
    return [("127.0.0.1", port), *([("::1", port)] if IPV6 else [])]


def ports(place: ListenAddress, last: int | None = None) -> list[tuple[str, int]]:
    found = listen(place, last)
    try:
        return [listener.getsockname()[:2] for listener in found]
    finally:
        for listener in found:
            listener.close()


def test_the_port_of_the_last_server_is_taken_again_and_passed_over_when_somebody_has_it(taken, free):
    assert ports(ListenAddress(), free) == both(free)
    assert taken not in {port for _, port in ports(ListenAddress(), taken)}


@pytest.mark.skipif(not IPV6, reason="needs IPv6 on loopback")
def test_a_port_that_somebody_has_on_ipv6_loopback_is_passed_over(free):
    """Browsers try that first: it would be sent what is meant for us."""
    with socket.create_server(("::1", free), family=socket.AF_INET6):
        assert free not in {port for _, port in ports(ListenAddress(), free)}
        with pytest.raises(ServerUnavailable, match=f"Port {free} of ::1 is taken"):
            require_free(ListenAddress(port=free))


def test_a_fixed_port_is_had_or_its_holder_is_named(taken, free):
    assert ports(ListenAddress(port=free)) == both(free)
    with pytest.raises(ServerUnavailable, match=rf"Port {taken} of 127\.0\.0\.1 is taken, by another program") as said:
        require_free(ListenAddress(port=taken))
    assert "--port" in said.value.remedy


def test_who_has_a_port_is_told_by_its_process_where_the_system_lets_us_know(taken):
    assert who_has(taken) == f"another program: {psutil.Process().name()} (process {os.getpid()})"


def test_at_another_address_it_listens_on_loopback_too(free):
    """That is where our own programs look."""
    assert set(ports(ListenAddress("127.0.0.2", free))) == {*both(free), ("127.0.0.2", free)}
    assert set(ports(ListenAddress("0.0.0.0", free))) == {("0.0.0.0", free), *both(free)[1:]}


def test_an_address_of_another_machine_is_refused_with_what_to_give(free):
    with pytest.raises(EnvironmentRefused, match=f"cannot listen at port {free} of 192.0.2.1: [A-Za-z ]+[.]$") as said:
        listen(ListenAddress("192.0.2.1", free), None)
    assert "--host" in said.value.remedy


@pytest.mark.parametrize(
    ("place", "fits"),
    [
        (ListenAddress(), True),
        (ListenAddress(port=4280), True),
        (ListenAddress(port=4281), False),
        (ListenAddress("0.0.0.0", 4280), True),
        (ListenAddress("127.0.0.1"), False),
        (ListenAddress(open=False), True),
        (ListenAddress(open=True), False),
        (ListenAddress(names=("prefect.example",)), False),
    ],
)
def test_a_server_is_where_it_has_to_be_or_not(place, fits):
    """One that others reach is not left to who asked for one that they do not."""
    assert place.is_at(Address(port=4280, pid=1, name="a", host="0.0.0.0")) is fits
