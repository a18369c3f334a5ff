"""Makes the kernel hold argv[2] megabytes in sockets, or as much as it may. Writes {"megabytes": N}, then sleeps."""
import json, resource, socket, struct, sys, time

kind, target = sys.argv[1], int(sys.argv[2]) << 20
kept = []
held = 0


def tcp():
    server = socket.create_server(("127.0.0.1", 0), backlog=4096)
    while True:
        sender = socket.socket()
        sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8 << 20)
        sender.connect(server.getsockname())
        receiver, _ = server.accept()
        receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
        kept.extend((sender, receiver))
        sender.setblocking(False)
        try:
            while True:
                yield sender.send(bytes(1 << 20))
        except BlockingIOError:
            pass


def netlink():
    # Answers about the loopback interface that nobody reads, 1.4 KB each.
    question = struct.pack("=IHHII", 32, 18, 5, 1, 0) + struct.pack("=BBHiII", 0, 0, 0, 1, 0, 0)
    while True:
        one = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
        one.setblocking(False)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
        kept.append(one)
        # As many as its queue takes; the kernel drops the others.
        for _ in range(4_000):
            one.send(question)
        yield 8 << 20


most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
work = globals()[kind]()
try:
    while held < target:
        held += next(work)
except OSError:
    pass
print(json.dumps({"megabytes": held >> 20}), flush=True)
time.sleep(1_000)
