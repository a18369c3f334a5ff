"""Leaves in every place that processes share what another sandbox might find, and waits. The argument is a word that is in all of it."""
import ctypes, os, socket, sys, threading

word = sys.argv[1]
libc = ctypes.CDLL(None, use_errno=True)
shared = libc.shmget(0x5A4D, 4096, 0o1666)
libc.shmat.restype = ctypes.c_void_p
ctypes.memmove(libc.shmat(shared, None, 0), word.encode(), len(word))
libc.msgget(0x5A4D, 0o1666)
libc.semget(0x5A4D, 1, 0o1666)
os.close(libc.mq_open(f"/{word}".encode(), os.O_CREAT | os.O_RDWR, ctypes.c_int(0o666), None))
for path in (f"/dev/shm/{word}", f"/tmp/{word}", f"/workspace/project/{word}"):
    open(path, "w").write(word)
held = [socket.socket(socket.AF_UNIX), socket.create_server(("0.0.0.0", 8080)), socket.create_server(("::", 8081), family=socket.AF_INET6)]
held[0].bind(f"\0{word}")
held[0].listen()
print("ready", flush=True)
sys.stdin.read()
