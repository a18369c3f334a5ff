/**
 * Python: a WebSocket server on port 8012 that answers each frame with its payload, in the standard
 * library alone.
 */
export const webSocketServer = `
import base64, hashlib, socket, threading
def serve(c):
    head = b""
    while b"\\r\\n\\r\\n" not in head: head += c.recv(4096)
    fields = dict(l.split(": ", 1) for l in head.decode("latin1").split("\\r\\n")[1:] if ": " in l)
    fields = {k.lower(): v for k, v in fields.items()}
    if "sec-websocket-key" not in fields:
        c.sendall(b"HTTP/1.0 426 Upgrade Required\\r\\n\\r\\n"); c.close(); return
    accept = base64.b64encode(hashlib.sha1((fields["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest())
    c.sendall(b"HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\nSec-WebSocket-Accept: " + accept + b"\\r\\n\\r\\n")
    while True:
        f = c.recv(4096)
        if not f or f[0] & 15 == 8: c.close(); return
        n = f[1] & 127
        c.sendall(bytes([f[0], n]) + bytes(b ^ f[2 + i % 4] for i, b in enumerate(f[6:6 + n])))
s = socket.create_server(("127.0.0.1", 8012))
while True: threading.Thread(target=serve, args=(s.accept()[0],), daemon=True).start()
`;
