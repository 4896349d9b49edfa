"""The test kit: what pytest offers to users, and which broker stands behind it."""
