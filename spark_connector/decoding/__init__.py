"""From stored bytes to Arrow columns, without Spark and without the network.

Start with ``decoder.py``; ``read_columns.py`` says which columns there are.
"""
