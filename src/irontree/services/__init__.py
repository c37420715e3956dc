"""One module per protocol step: ports and values in, values out."""
