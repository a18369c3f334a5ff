/* Puts the driver's files into a sandbox, and answers its questions about files. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "helper.h"

/* Makes the folders above the last name. */
static int make_parents(const char *path, uid_t uid, gid_t gid) {
	char parent[4096];
	size_t length = strlen(path);
	if (length >= sizeof parent || path[0] != '/') return ENAMETOOLONG;
	memcpy(parent, path, length + 1);
	char *slash = strrchr(parent, '/');
	if (slash == parent) return 0;
	*slash = 0;
	return make_folder(parent, uid, gid);
}

int make_folder(const char *path, uid_t uid, gid_t gid) {
	struct stat found;
	if (stat(path, &found) == 0) return S_ISDIR(found.st_mode) ? 0 : ENOTDIR;
	int error = make_parents(path, uid, gid);
	if (error) return error;
	if (mkdir(path, 0755) != 0) return errno == EEXIST ? 0 : errno;
	chmod(path, 0755);
	return lchown(path, uid, gid) == 0 ? 0 : errno;
}

int make_own_folder(const char *path, uid_t uid, gid_t gid) {
	struct stat found;
	if (!strcmp(path, "/")) return 0;
	if (stat(path, &found) != 0) {
		int error = make_parents(path, 0, 0);
		return error ? error : make_folder(path, uid, gid);
	}
	if (!S_ISDIR(found.st_mode)) return ENOTDIR;
	/* A folder to which everybody may write keeps its owner. */
	if (found.st_uid == uid || found.st_mode & 0002) return 0;
	/* Only the owner of a folder may change its mode without the capability FOWNER. */
	if (found.st_uid != geteuid() && chown(path, geteuid(), -1) != 0) return errno;
	if (chmod(path, (found.st_mode & 07777) | 0755) != 0) return errno;
	return chown(path, uid, gid) == 0 ? 0 : errno;
}

/* Paths at which `pod-options.ts` mounts the ConfigMaps with the parts, and the joined programs. */
#define PARTS "/run/sandpiper/busybox"
#define PROGRAM "/run/sandpiper-programs/busybox"

int join_programs(void) {
	char path[64], bytes[32 << 10];
	int target = -1, error = 0;
	for (int part = 0; !error; part++) {
		snprintf(path, sizeof path, PARTS ".%d", part);
		int source = open(path, O_RDONLY | O_CLOEXEC);
		if (source < 0) break;
		if (target < 0) target = open(PROGRAM, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0700);
		ssize_t count = target < 0 ? -1 : 1;
		while (count > 0 && (count = read(source, bytes, sizeof bytes)) > 0)
			if (write(target, bytes, count) != count) count = -1;
		if (count < 0) error = errno ? errno : EIO;
		close(source);
	}
	if (target >= 0 && !error && fchmod(target, 0555) != 0) error = errno;
	if (target >= 0) close(target);
	return error;
}

int put_file(const char *path, mode_t mode, uid_t uid, gid_t gid, const void *content, size_t count) {
	char next[4096];
	int error = make_parents(path, 0, 0);
	if (error) return error;
	if (snprintf(next, sizeof next, "%s.sandpiper-new", path) >= (int)sizeof next) return ENAMETOOLONG;
	unlink(next);
	/* Nobody but root can see the file before it is complete. */
	int fd = open(next, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0) return errno;
	const char *rest = content;
	for (size_t left = count; left > 0 && !error;) {
		ssize_t written = write(fd, rest, left);
		if (written < 0) error = errno;
		else rest += written, left -= written;
	}
	if (!error && (fchmod(fd, mode) != 0 || fchown(fd, uid, gid) != 0)) error = errno;
	close(fd);
	if (!error && rename(next, path) != 0) error = errno;
	if (error) unlink(next);
	return error;
}

extern char **environ;

/* Prints, each ended by NUL: folder, `uid:gid`, the number of variables, the variables, /etc/passwd, /etc/group. */
int describe(void) {
	char folder[4096];
	int count = 0;
	while (environ[count]) count++;
	printf("%s%c%d:%d%c%d%c", getcwd(folder, sizeof folder) ? folder : "/", 0, getuid(), getgid(), 0, count, 0);
	for (int at = 0; at < count; at++) printf("%s%c", environ[at], 0);
	char *passwd = "/etc/passwd", *group = "/etc/group";
	fflush(stdout);
	read_files(1, &passwd);
	if (write(1, "", 1) != 1) return 1;
	read_files(1, &group);
	return write(1, "", 1) == 1 ? 0 : 1;
}

/* Prints files of at most 1 MiB one after the other; a missing one is skipped. */
int read_files(int count, char **paths) {
	static char text[1 << 20];
	for (int at = 0; at < count; at++) {
		int fd = open(paths[at], O_RDONLY | O_CLOEXEC);
		ssize_t length = 0, piece;
		while (fd >= 0 && length < (ssize_t)sizeof text && (piece = read(fd, text + length, sizeof text - length)) > 0)
			length += piece;
		if (fd >= 0) close(fd);
		for (ssize_t written = 0; written < length;) {
			if ((piece = write(1, text + written, length - written)) < 0) return 1;
			written += piece;
		}
	}
	return 0;
}

static unsigned long long bytes, files, most_bytes, most_files;
static long long measured_until;

static int add_entry(const char *path, const struct stat *entry, int type, struct FTW *where) {
	(void)path, (void)where;
	if (type == FTW_NS) return 0;
	/* A file with several names counts once for each name, so the count is an upper bound. */
	bytes += (unsigned long long)entry->st_blocks * 512;
	files++;
	return bytes > most_bytes || files > most_files || now_ms() > measured_until;
}

/* Arguments: most bytes, most files, ms, folders. Prints bytes, files, and 1 when the count is partial. */
int measure(int argc, char **argv) {
	if (argc < 3) return 2;
	most_bytes = strtoull(argv[0], NULL, 10);
	most_files = strtoull(argv[1], NULL, 10);
	measured_until = now_ms() + atoll(argv[2]);
	int stopped = 0;
	for (int at = 3; at < argc && !stopped; at++) stopped = nftw(argv[at], add_entry, 32, FTW_PHYS | FTW_MOUNT) == 1;
	printf("%llu %llu %d\n", bytes, files, stopped && bytes <= most_bytes && files <= most_files);
	return 0;
}
