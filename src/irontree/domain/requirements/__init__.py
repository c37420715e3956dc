"""Steps of reading a requirement document; the entry point is `irontree.domain.spec`."""
