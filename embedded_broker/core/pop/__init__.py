"""POP: consumers take messages of any queue, which come back unless they are acked in time.

=================  ============================================================================
module             answers
=================  ============================================================================
taking             what a pop gets, at once or when a message arrives; peek and notification
acks               what becomes of a message that was popped: done, or hidden for longer
revive             what comes back, and when
revive_log         how pops and acks lie in the revive topic
ordered            when a queue is free again after an ordered pop
assignment         which queues a consumer gets that lets the broker decide
checks             what every request of the family must fulfil
=================  ============================================================================
"""
