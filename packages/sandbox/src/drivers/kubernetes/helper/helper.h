/*
 * The static program that the kubernetes driver mounts into every pod. `first` is the pod's first
 * process; `resident` serves the driver over the standard input and output of one exec connection.
 * The program has no secret, and the server believes it only about its own sandbox.
 */
#pragma once

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/types.h>

/* A frame is the length of its payload (4 bytes, big endian), type (1), channel (4) and payload. */
enum { HEADER_BYTES = 9, MAX_FRAME = 4 << 20, PIECE_BYTES = 32 << 10 };

/* Types of frames from the server. `protocol.ts` has the same numbers. */
enum request {
	RUN = 1,     /* flags, columns, rows, argc, envc, then texts: folder, arguments, environment */
	INPUT = 2,   /* bytes for a process or a connection */
	FINISH = 3,  /* no more input */
	ALLOW = 4,   /* stream (1 byte), bytes that may follow (4) */
	SIGNAL = 5,  /* number (1) */
	RESIZE = 6,  /* columns (2), rows (2) */
	CONNECT = 7, /* port (2) */
	LISTEN = 8,  /* port (2) */
	CLOSE = 9,   /* drops a connection or a listener */
	PUT = 10,    /* mode (4), user (4), group (4), path, NUL, content */
	FOLDER = 11, /* user (4), group (4), path: made when it is missing */
	FREEZE = 12,
	THAW = 13,
	PING = 14,
};

/* Types of frames to the server. */
enum answer {
	HELLO = 64,
	OUTPUT = 65,   /* stream (1), bytes */
	ENDED = 66,    /* stream (1) */
	EXITED = 67,   /* exit code, or 128 + signal (4) */
	TAKEN = 68,    /* bytes of input that were passed on (4) */
	DONE = 69,     /* a request has been carried out */
	FAILED = 70,   /* error number (4), message */
	ACCEPTED = 71, /* channel of the listener (4) */
};

struct buffer {
	unsigned char *data;
	size_t start, end, size;
};

void buffer_add(struct buffer *buffer, const void *bytes, size_t count);
/* Removes the first `count` bytes of a buffer. */
void buffer_drop(struct buffer *buffer, size_t count);
void buffer_free(struct buffer *buffer);
static inline size_t buffer_length(const struct buffer *buffer) { return buffer->end - buffer->start; }

uint32_t get16(const unsigned char *bytes);
uint32_t get32(const unsigned char *bytes);
void put32(unsigned char *bytes, uint32_t value);

/* frames.c: sent frames wait in `outgoing` until the connection takes them. */
extern struct buffer outgoing;
void send_frame(enum answer type, uint32_t channel, const void *payload, size_t count);
void send_number(enum answer type, uint32_t channel, uint32_t number);
void send_failure(uint32_t channel, int error);

/* The user who runs commands, and the rights of commands. */
struct identity {
	uid_t uid;
	gid_t gid;
	uint64_t capabilities; /* capabilities of root; with any of them, set-user-id programs work */
	unsigned long processes; /* maximum number of processes of the user; 0: no limit */
};

/* privileges.c */
/* Drops the capabilities that commands never have from the bounding set of this process. */
void limit_privileges(const struct identity *who);
/* Gives a new process the user, limits and rights of commands. */
void become(const struct identity *who);
/* Makes this process one of the user for good, without any capability. */
void become_powerless(const struct identity *who);

/* channels.c */
struct channel {
	struct channel *next;
	uint32_t id;
	enum { PROCESS, CONNECTION, LISTENER } kind;
	pid_t pid;
	bool has_terminal, has_exited, is_opening;
	int code;
	uint16_t port;
	int socket;  /* socket of a connection or a listener; both directions share it */
	int in;      /* descriptor that takes input; -1: none */
	int out[2];  /* descriptors of output; -1: the stream has ended */
	uint32_t allowed[2];
	long left[2];          /* unread bytes of output of a process that has exited */
	long long ends_at;     /* time at which the terminal of an exited process has no more output, ms */
	struct buffer pending; /* input that waits */
	bool is_finishing;
	bool is_dead;
};

extern struct channel *channels;
struct channel *add_channel(uint32_t id, int kind);
struct channel *find_channel(uint32_t id);
void take_input(struct channel *channel, const unsigned char *bytes, size_t count);
void finish_input(struct channel *channel);
void write_pending(struct channel *channel);
void read_output(struct channel *channel, int stream);
/* Ends a process whose output is complete, and a connection whose both directions are closed. */
void settle(struct channel *channel);
void close_channel(struct channel *channel);
/* Frees the dead channels. */
void sweep_channels(void);
long long now_ms(void);
/* Maximum time between the end of a process and the last output of its terminal, ms. */
enum { TERMINAL_REST_MS = 60 };

/* process.c */
void run_command(uint32_t id, const struct identity *who, const unsigned char *payload, size_t count);
/* Replaces this process; `path` is the variable PATH's value. Returns the exit code on failure. */
int execute(char **arguments, char **environment, const char *path);
void reap_children(void);
void signal_command(struct channel *channel, int number);
void resize_command(struct channel *channel, uint16_t columns, uint16_t rows);

/* sockets.c */
void open_connection(uint32_t id, uint16_t port);
void continue_opening(struct channel *channel);
void open_listener(uint32_t id, uint16_t port);
void accept_connection(struct channel *listener);

/* freeze.c: act on all processes but the helper's own. Return 0, or an error number. */
int freeze_all(void);
int thaw_all(void);

/* files.c: return 0, or an error number. */
int put_file(const char *path, mode_t mode, uid_t uid, gid_t gid, const void *content, size_t count);
int make_folder(const char *path, uid_t uid, gid_t gid);
/* Joins the parts of programs, `<name>.0`, `<name>.1` and so on, in a folder of root. */
int join_programs(void);
/* Makes a folder of the user. An existing folder then belongs to the user. */
int make_own_folder(const char *path, uid_t uid, gid_t gid);

/* Name of the helper's processes that serve connections. */
#define RESIDENT_NAME "sandpiper"

/* The modes of the program. They return its exit code. */
int first(int argc, char **argv);
int resident(int argc, char **argv);
int describe(void);
int read_files(int count, char **paths);
int measure(int argc, char **argv);
int copy(int argc, char **argv);
int seed(int argc, char **argv);
int await_seeds(int count, char **folders);
/* Unlocks the terminal whose master side is an inherited descriptor, and prints its path. */
int unlock_terminal(int argc, char **argv);
