"""The broker's HTTP face: what tests and programs in any language do with it, as JSON."""
