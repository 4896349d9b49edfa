"""RocketMQ 5's timer store: the wheel, the timer log and the services that step them."""
