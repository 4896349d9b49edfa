"""Request handlers: one module per request family, named after RocketMQ's processors.

====================  ===================================================
module                requests
====================  ===================================================
send_message          310, 10, 320 (what is accepted: core/produce)
reply_message         324, 325 (the push 326: core/client_calls)
follow_ups            36, 37, 323, 370 (half messages and 39: the room `core/transactions/`)
pull_message          11, 361 (what a pull gets: core/consume)
pop_message           200050, 200052, 200054, 200055 (what a pop gets: core/pop/)
ack_message           200051, 200151, 200053
query_assignment      400, 401, 402
client_manage         34, 35, 46, 38, 14, 15
query_message         12, 33
topics_and_groups     17, 18, 21, 215, 305, 306, 316, 329, 351; 200, 201, 207, 225, 352, 353
consumption           43, 300, 303, 308, 314, 317, 321, 343, 345
connections           203, 204, 328, 223, 307, 309 (221, 307, 309 to clients: core/client_calls)
admin_broker          25, 26, 202, 208, 29 to 32, 222, 41, 42
inspection            28, 45, 60, 61, 315
====================  ===================================================

The name server's 105, 106 and 206 are in `namesrv/name_server.py`, those of administrators in
`namesrv/administration.py`. A handler gets a `Request` under
the door. It reads the header, makes one call of `core/`, and returns the answer; None if the answer
comes later. What the call refuses is answered with the code of its reason. Codes that no module
takes are answered 3 by `remoting/endpoint.py`. To add a request: the module of its family, one line
in `register`, one in this table.
"""
