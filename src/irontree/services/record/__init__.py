"""Reading and writing the log: one view of everything recorded, the record of an event, names of refs."""
