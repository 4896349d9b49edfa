"""Everything on the receiving side: consumers, and the one core that they stand on.

`push`, `lite_pull` and `pop` are classes that a program holds, `face` is what they share, and
``../aio`` has the ones for asyncio. `assembly` has the table of what each kind is made of: parts of
`core`, which know no listener, and a way of handing messages over, from `dispatch`. The public
names are exported by `rocketmq_py` itself.
"""
