"""Everything on the receiving side: the push consumer and what it is made of.

`push` is the class that a program holds; `pull_loop`, `process_queue`, `concurrent`, `rebalance`
and `offsets` are its organs, in the order in which a message meets them. The public names are
exported by `rocketmq_py` itself.
"""
