"""Pure values and rules: no clock, random, path, environment, network or YAML in here."""
