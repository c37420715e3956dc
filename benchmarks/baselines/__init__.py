"""The other side of each comparison: plain scripts, to be judged by anyone. They import nothing they do not name."""
