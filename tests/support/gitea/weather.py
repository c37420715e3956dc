"""A seeded plan of faults: a server that loses answers, sends 502, truncates lists, lags, and is restarted."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from tests.support.gitea.server import Fault, GiteaServer

RESTART = 8
"""The most requests in a row that find nobody; a read is tried three times."""


@dataclass
class Weather:
    """What goes wrong with which request, the same for the same *seed* and requests; *share* of them are struck."""

    seed: int
    share: float = 0.2
    struck: list[str] = field(default_factory=list)
    """What happened, for who reads why a test failed."""

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._down = 0
        self.calm = False

    def fault(self, server: GiteaServer, method: str, path: str) -> Fault | None:
        """The fault of this request; None if all is well. May change what lists show from now on."""
        if self.calm:
            server.contents.lag = 0
            return None
        if self._down:
            self._down -= 1
            return self._strike("nobody there", method, path, Fault(drop="before"))
        if self._random.random() >= self.share:
            return None
        kind = self._random.choice(["answer lost", "no connection", "502", "502 too late", "cut", "lag", "restart"])
        match kind:
            case "answer lost":
                fault = Fault(drop="after")
            case "no connection":
                fault = Fault(drop="before")
            case "502":
                fault = Fault(status=502, body="<html>Bad Gateway</html>")
            case "502 too late":
                fault = Fault(status=502, body="<html>Bad Gateway</html>", late=True)
            case "cut" if method == "GET":
                fault = Fault(shown=self._random.randrange(3))
            case "lag":
                server.contents.lag = self._random.randrange(3)
                return None
            case _:
                self._down = self._random.randrange(RESTART)
                fault = Fault(drop="before")
        return self._strike(kind, method, path, fault)

    def _strike(self, kind: str, method: str, path: str, fault: Fault) -> Fault:
        self.struck.append(f"{kind}: {method} {path}")
        return fault
