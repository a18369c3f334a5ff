"""Looks for what `leave_traces.py` left in another sandbox. Writes the places where something of it is."""
import ctypes, json, os, sys

word = sys.argv[1]
libc = ctypes.CDLL(None, use_errno=True)
found = [name for name, result in (("shm", libc.shmget(0x5A4D, 0, 0)), ("msg", libc.msgget(0x5A4D, 0)), ("sem", libc.semget(0x5A4D, 0, 0)), ("mq", libc.mq_open(f"/{word}".encode(), os.O_RDWR))) if result != -1]
own = str(os.getpid())
for file in ("net/unix", "net/tcp", "sysvipc/shm", "mounts"):
    if word in open(f"/proc/self/{file}" if "sysvipc" not in file else f"/proc/{file}").read():
        found.append(file)
for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        if pid != own and word in open(f"/proc/{pid}/cmdline").read():
            found.append(f"process {pid}")
    except OSError:
        pass
for top in ("/tmp", "/dev/shm", "/workspace", "/run", "/var"):
    for folder, names, files in os.walk(top):
        found += [os.path.join(folder, name) for name in names + files if word in name]
print(json.dumps(found))
