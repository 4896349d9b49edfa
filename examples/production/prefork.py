"""A web service of several processes that takes orders: it forks first, and ends without a loss.

The parent opens the port, forks the workers and watches them; each worker has a producer of its
own, which it starts behind the fork, since threads and connections are not copied. A worker that
dies is replaced. At SIGTERM nobody takes another connection, each worker answers the request that
it has in hand, its producer waits for what is under way, and the parent ends last. An order that
was answered with 202 is stored at a broker, whatever happens then.

The broker is the one that NAMESRV_ADDR names. POSIX only:

    export NAMESRV_ADDR=127.0.0.1:9876
    python prefork.py 8080 4           # port and number of workers; until Ctrl-C or SIGTERM
    curl --data "a chair" http://127.0.0.1:8080/
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from time import sleep

from rocketmq_py import DefaultMQProducer, Message, RocketMQError
from rocketmq_py.admin import AdminClient

TOPIC = "WebOrders"
BODY_MAX = 64 * 1024
SILENCE_S = 5
"""How long a connection may say nothing: a worker that waits for it serves nobody else."""
PAUSE_S = 0.2
"""How long a process looks away from signals. A worker that cannot start is tried so often."""
SIGNALS = (signal.SIGINT, signal.SIGTERM)
log = logging.getLogger("prefork")


class OrderHandler(BaseHTTPRequestHandler):
    """POST of an order: 202 when a broker has it, 503 when it may be tried again."""

    producer: DefaultMQProducer
    timeout = SILENCE_S

    def do_POST(self) -> None:
        """Take an order, which is the body."""
        size = int(self.headers.get("Content-Length") or 0)
        if not 0 < size <= BODY_MAX:
            self.send_error(413, f"an order has 1 to {BODY_MAX} bytes")
            return
        try:
            sent = self.producer.send(Message(TOPIC, self.rfile.read(size)))
        except RocketMQError as error:
            log.warning("an order was refused: %s", error)
            self.send_error(503)
        else:
            self.send_response(202)
            self.send_header("Content-Length", str(len(sent.msg_id)))
            self.end_headers()
            self.wfile.write(sent.msg_id.encode())


def work(listening: socket.socket, stopping: list[int]) -> None:
    """Answer requests until a signal comes; returns when the producer has no more to do."""
    server = HTTPServer(listening.getsockname(), OrderHandler, bind_and_activate=False)
    server.socket.close()
    server.socket = listening
    with DefaultMQProducer("web", topics=[TOPIC]) as producer:
        OrderHandler.producer = producer
        while not stopping:
            server.handle_request()


def fork(listening: socket.socket, stopping: list[int]) -> int:
    """Start a worker, which has a copy of everything; gives its process id to the parent."""
    pid = os.fork()
    if pid:
        return pid
    try:
        work(listening, stopping)
    except BaseException:
        log.exception("worker %d fails", os.getpid())
        os._exit(1)
    os._exit(0)


def serve(port: int, count: int) -> None:
    """Keep ``count`` workers alive until SIGTERM or SIGINT, then wait for the last one."""
    stopping: list[int] = []  # a worker has its own, and the handler that goes with it
    for number in SIGNALS:
        signal.signal(number, lambda signum, _: stopping.append(signum))
    with socket.create_server(("127.0.0.1", port), backlog=128) as listening:
        listening.settimeout(PAUSE_S)  # all workers wake up for a connection, and one gets it
        log.info("port %d", listening.getsockname()[1])
        workers: set[int] = set()
        while not stopping:
            workers |= {fork(listening, stopping) for _ in range(count - len(workers))}
            sleep(PAUSE_S)
            workers -= {pid for pid in workers if os.waitpid(pid, os.WNOHANG)[0]}
    for pid in workers:
        os.kill(pid, signal.SIGTERM)
    for pid in workers:
        os.waitpid(pid, 0)


def main(*words: str) -> None:
    logging.basicConfig(level=logging.INFO)
    match words:
        case [port, count] if port.isdigit() and count.isdigit():
            with AdminClient() as admin:
                admin.ensure_topic(TOPIC)
            serve(int(port), int(count))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except RocketMQError as error:  # its text says what to do
        sys.exit(f"prefork: {error}")
