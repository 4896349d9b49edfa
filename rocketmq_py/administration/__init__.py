"""What administrators ask and change: a table of requests, and acts made of them.

``table.py`` says what can be asked, ``values.py`` what is answered, ``calls.py`` how a client is
called, the other modules what an act does. An act is a coroutine that asks through `Servers`: a
blocking client runs it to its end in one step, an event loop awaits it. Must not know which of the
two it is. Read on: ``../admin`` and ``../aio/admin.py`` for the clients.
"""
