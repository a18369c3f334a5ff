/* Copies a folder with owners, modes, times, links and extended attributes. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "helper.h"

enum { OPEN_FOLDERS = 64, MAX_ATTRIBUTES = 64 << 10, SEED_TIMEOUT_MS = 120000 };

/* Name of the mark in a folder of a volume that has all files of the image. */
#define SEED_MARK ".sandpiper-seeded"

/* A name of each file with several names, by device and file number. */
struct linked {
	struct linked *next;
	dev_t device;
	ino_t number;
	char path[];
};

static struct linked *linked[4096];
static const char *to;
static size_t from_length;
static char failed_path[4096];

static bool link_again(const struct stat *entry, const char *target) {
	if (entry->st_nlink < 2 || S_ISDIR(entry->st_mode)) return false;
	struct linked **slot = &linked[entry->st_ino % 4096];
	for (struct linked *one = *slot; one; one = one->next)
		if (one->device == entry->st_dev && one->number == entry->st_ino) return link(one->path, target) == 0;
	struct linked *one = malloc(sizeof *one + strlen(target) + 1);
	if (!one) return false;
	*one = (struct linked){*slot, entry->st_dev, entry->st_ino};
	strcpy(one->path, target);
	*slot = one;
	return false;
}

/* Copies only the parts with data, so that holes stay holes. */
static int copy_content(const char *path, const char *target) {
	int in = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	int out = open(target, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	struct stat whole;
	int failed = in < 0 || out < 0 || fstat(in, &whole) != 0 || ftruncate(out, whole.st_size) != 0;
	for (off_t at = 0; !failed && at < whole.st_size;) {
		off_t data = lseek(in, at, SEEK_DATA);
		if (data < 0 && errno == ENXIO) break;
		off_t hole = data < 0 ? whole.st_size : lseek(in, data, SEEK_HOLE);
		if (data < 0) data = at;
		for (off_t source = data, place = data; source < hole;) {
			ssize_t count = copy_file_range(in, &source, out, &place, hole - source, 0);
			if (count < 0 && (errno == EXDEV || errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP)) {
				static char piece[1 << 20];
				size_t most = hole - source < (off_t)sizeof piece ? (size_t)(hole - source) : sizeof piece;
				count = pread(in, piece, most, source);
				if (count > 0 && pwrite(out, piece, count, place) != count) count = -1;
				source += count;
				place += count;
			}
			if (count < 0) {
				failed = 1;
				break;
			}
			/* The file became shorter during the copy. */
			if (count == 0) break;
		}
		at = hole;
	}
	int error = errno;
	if (in >= 0) close(in);
	if (out >= 0 && close(out) != 0) failed = 1, error = errno;
	errno = error;
	return failed;
}

static void copy_attributes(const char *path, const char *target) {
	static char names[MAX_ATTRIBUTES], value[MAX_ATTRIBUTES];
	ssize_t length = llistxattr(path, names, sizeof names);
	for (ssize_t at = 0; at < length; at += strlen(names + at) + 1) {
		ssize_t size = lgetxattr(path, names + at, value, sizeof value);
		/* The filesystem of a storage class may lack some attributes. */
		if (size >= 0 && lsetxattr(target, names + at, value, size, 0) != 0) continue;
	}
}

static int copy_entry(const char *path, const struct stat *entry, int type, struct FTW *where) {
	char target[4096], link_text[4096];
	(void)type;
	if (snprintf(target, sizeof target, "%s%s", to, path + from_length) >= (int)sizeof target) {
		errno = ENAMETOOLONG;
		goto failed;
	}
	if (!S_ISDIR(entry->st_mode)) {
		/* An earlier copy may have been interrupted and left this file. */
		unlink(target);
		if (link_again(entry, target)) return 0;
		if (S_ISREG(entry->st_mode)) {
			if (copy_content(path, target) != 0) goto failed;
		} else if (S_ISLNK(entry->st_mode)) {
			ssize_t length = readlink(path, link_text, sizeof link_text - 1);
			if (length < 0) goto failed;
			link_text[length] = 0;
			if (symlink(link_text, target) != 0) goto failed;
		} else if (S_ISFIFO(entry->st_mode)) {
			if (mkfifo(target, 0600) != 0) goto failed;
		} else {
			return 0; /* Sockets end with their processes, and devices cannot be made. */
		}
	}
	if (lchown(target, entry->st_uid, entry->st_gid) != 0) goto failed;
	copy_attributes(path, target);
	if (!S_ISLNK(entry->st_mode) && chmod(target, entry->st_mode & 07777) != 0) goto failed;
	struct timespec times[2] = {entry->st_atim, entry->st_mtim};
	if (utimensat(AT_FDCWD, target, times, AT_SYMLINK_NOFOLLOW) != 0 && where->level > 0) goto failed;
	return 0;
failed:
	snprintf(failed_path, sizeof failed_path, "%s", path);
	return 1;
}

/* Makes each folder before its content, with rights that allow the copy to fill the folder. */
static int make_copied_folder(const char *path, const struct stat *entry, int type, struct FTW *where) {
	char target[4096];
	(void)type, (void)where;
	if (!S_ISDIR(entry->st_mode)) return 0;
	snprintf(target, sizeof target, "%s%s", to, path + from_length);
	if (mkdir(target, 0700) == 0 || errno == EEXIST) return 0;
	snprintf(failed_path, sizeof failed_path, "%s", path);
	return 1;
}

/* Copies a folder onto an existing folder. Reports the reason of a failure to the cluster. */
static int copy_folder(const char *source, const char *target) {
	to = target;
	from_length = strlen(source);
	umask(0);
	if (nftw(source, make_copied_folder, OPEN_FOLDERS, FTW_PHYS | FTW_MOUNT) == 0 &&
	    nftw(source, copy_entry, OPEN_FOLDERS, FTW_PHYS | FTW_MOUNT | FTW_DEPTH) == 0)
		return 0;
	int error = errno, report = open("/dev/termination-log", O_WRONLY | O_APPEND | O_CLOEXEC);
	dprintf(report, "%s: %s", failed_path[0] ? failed_path : source, strerror(error));
	return 1;
}

/* Arguments: the folder to copy, and an existing folder. */
int copy(int argc, char **argv) { return argc == 2 ? copy_folder(argv[0], argv[1]) : 2; }

static int mark_path(char *path, size_t size, const char *folder) {
	return snprintf(path, size, "%s/%s", folder, SEED_MARK) < (int)size;
}

/*
 * Arguments: uid, gid, then pairs of a folder of the image and a folder of a volume. The folder of
 * the volume belongs to the user afterwards. It has only the mark when the image lacks the folder.
 */
int seed(int argc, char **argv) {
	for (int at = 2; at + 1 < argc; at += 2) {
		char mark[4096];
		struct stat found;
		if (mkdir(argv[at + 1], 0755) != 0 && errno != EEXIST) return 1;
		if (stat(argv[at], &found) == 0 && S_ISDIR(found.st_mode) && copy_folder(argv[at], argv[at + 1]) != 0) return 1;
		if (chown(argv[at + 1], atoi(argv[0]), atoi(argv[1])) != 0) return 1;
		int fd = mark_path(mark, sizeof mark, argv[at + 1]) ? open(mark, O_WRONLY | O_CREAT | O_CLOEXEC, 0600) : -1;
		if (fd < 0 || close(fd) != 0) return 1;
	}
	return 0;
}

/* Waits until all folders have the mark of a complete copy, and removes it. */
int await_seeds(int count, char **folders) {
	long long end = now_ms() + SEED_TIMEOUT_MS;
	for (int at = 0; at < count; at++) {
		char mark[4096];
		if (!mark_path(mark, sizeof mark, folders[at])) return 1;
		while (unlink(mark) != 0) {
			if (errno != ENOENT || now_ms() > end) {
				dprintf(2, "%s: %s\n", folders[at], errno == ENOENT ? "the image's files did not arrive" : strerror(errno));
				return 1;
			}
			usleep(2000);
		}
	}
	return 0;
}
