"""A small shop as its owner would write and test it: the suite that the kit is proved with."""
