"""Opens every file of /proc, /sys and /dev for writing that does not belong to a process of the sandbox. Writes the paths that open.
A masked file is the null device."""
import json, os

null = os.stat("/dev/null").st_rdev

opened, looked = [], 0
own = {"full", "null", "zero", "random", "urandom", "tty", "ptmx", "stdin", "stdout", "stderr"}
for top in ("/proc", "/sys", "/dev"):
    for folder, names, files in os.walk(top):
        if folder == "/proc":
            names[:] = [name for name in names if not name.isdigit()]
        if folder == "/dev":
            names[:] = [name for name in names if name not in ("pts", "shm", "mqueue")]
        for name in files:
            path = os.path.join(folder, name)
            if (folder == "/dev" and name in own) or os.path.realpath(path).startswith(("/proc/self/", f"/proc/{os.getpid()}/", "/dev/pts/")):
                continue
            looked += 1
            try:
                descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
                if os.fstat(descriptor).st_rdev != null:
                    opened.append(path)
                os.close(descriptor)
            except OSError:
                pass
print(json.dumps({"opened": opened, "looked": looked}))
