"""The broker on damaged files, full disks and under greedy clients; `make hostile` runs all."""
