"""The control face: what programs in any language do with the broker over HTTP, as JSON."""
