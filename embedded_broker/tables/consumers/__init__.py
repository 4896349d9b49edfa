"""Who is connected, to which groups they belong, and what a group is allowed to do."""
