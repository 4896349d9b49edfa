"""What the calls of clients do, a module for each family: read outside the door, handled inside."""
