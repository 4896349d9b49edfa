"""POP: consumers take messages of any queue, which come back unless they are acked in time.

=================  ============================================================================
module             answers
=================  ============================================================================
service            what a pop gets, at once or when a message arrives
peeks              what it would find: peeks and notifications
queue_order        which queues a pop looks at, and where it waits
pops               what is asked for and found, as values
records            how records are written for a client that pops
acks               what becomes of a message that was popped: done, or hidden for longer
revive             what comes back, and when
revive_log         how pops and acks lie in the revive topic
ordered            when a queue is free again after an ordered pop
assignment         which queues a consumer gets that lets the broker decide
checks             what every request of the family must fulfil
=================  ============================================================================

A pop reads messages, stores a check point for the revive topic, which gets there by timer, and
moves the group's offset on; an ack is stored in the same way. What has no ack when its time is over
is put into the group's pop retry topic. Both are the original's bytes, so a real broker can take
over what is hidden, and the other way round. The file of the offsets is written after a sync of the
log: a group is never durably past messages whose check point is not.
"""
