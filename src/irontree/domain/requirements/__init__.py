"""How a requirement document is read, step by step; `irontree.domain.spec` is the door."""
