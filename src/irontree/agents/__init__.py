"""Programs that edit code: adapters of the port `CodingAgent`."""
