"""The sample project of `irontree demo`: what it holds (`sample`), and how it gets into a folder (`layout`)."""
