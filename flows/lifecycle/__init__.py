"""How flow runs come to be, are told apart from dead ones, taken up again and ended."""
