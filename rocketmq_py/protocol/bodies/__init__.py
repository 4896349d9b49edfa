"""The JSON bodies of requests and answers, one module per family.

Each body is an attrs class whose fields are its table; `document` turns such tables into JSON and
back. Importing this package loads none of them.
"""
