"""The steps of the protocol as functions: ports and values in, values out."""
