/* Serves one connection of the driver: reads requests, and carries channels between both sides. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "helper.h"

/* Number of bytes waiting for the connection at which output of commands is no longer read. */
enum { MAX_OUTGOING = 512 << 10, MAX_CHANNELS = 4096, TERMINAL_LOOK_MS = 20 };

static struct identity who;
static struct buffer incoming;

static void answer(uint32_t id, int error) {
	if (error) send_failure(id, error);
	else send_frame(DONE, id, NULL, 0);
}

static void put(uint32_t id, const unsigned char *payload, size_t count) {
	const unsigned char *path = payload + 12;
	const unsigned char *end = count > 12 ? memchr(path, 0, count - 12) : NULL;
	if (!end) return send_failure(id, EINVAL);
	answer(id, put_file((const char *)path, get32(payload), get32(payload + 4), get32(payload + 8), end + 1,
	                    payload + count - end - 1));
}

static void handle(enum request type, uint32_t id, const unsigned char *payload, size_t count) {
	struct channel *channel = find_channel(id);
	switch (type) {
	case RUN: return run_command(id, &who, payload, count);
	case CONNECT: return count == 2 ? open_connection(id, get16(payload)) : send_failure(id, EINVAL);
	case LISTEN: return count == 2 ? open_listener(id, get16(payload)) : send_failure(id, EINVAL);
	case PUT: return put(id, payload, count);
	case FOLDER:
		if (count < 10 || payload[count - 1] != 0) return send_failure(id, EINVAL);
		return answer(id, make_folder((const char *)payload + 8, get32(payload), get32(payload + 4)));
	case FREEZE: return answer(id, freeze_all());
	case THAW: return answer(id, thaw_all());
	case PING: return answer(id, 0);
	default: break;
	}
	if (!channel) return;
	switch (type) {
	case INPUT: return take_input(channel, payload, count);
	case FINISH: return finish_input(channel);
	case ALLOW:
		if (count == 5 && payload[0] < 2) channel->allowed[payload[0]] += get32(payload + 1);
		return;
	case SIGNAL: return count == 1 ? signal_command(channel, payload[0]) : (void)0;
	case RESIZE: return count == 4 ? resize_command(channel, get16(payload), get16(payload + 2)) : (void)0;
	case CLOSE: return channel->kind != PROCESS ? close_channel(channel) : (void)0;
	default: return;
	}
}

/* Returns false when the connection has ended. */
static bool read_requests(void) {
	unsigned char piece[PIECE_BYTES * 2];
	ssize_t count = read(0, piece, sizeof piece);
	if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR)) return false;
	if (count > 0) buffer_add(&incoming, piece, count);
	while (buffer_length(&incoming) >= HEADER_BYTES) {
		unsigned char *frame = incoming.data + incoming.start;
		size_t length = get32(frame);
		if (length > MAX_FRAME) return false;
		if (buffer_length(&incoming) < HEADER_BYTES + length) break;
		handle(frame[4], get32(frame + 5), frame + HEADER_BYTES, length);
		buffer_drop(&incoming, HEADER_BYTES + length);
	}
	return true;
}

static bool write_answers(void) {
	while (buffer_length(&outgoing) > 0) {
		ssize_t count = write(1, outgoing.data + outgoing.start, buffer_length(&outgoing));
		if (count < 0 && errno == EINTR) continue;
		if (count < 0) return errno == EAGAIN;
		buffer_drop(&outgoing, count);
	}
	return true;
}

struct watched {
	struct channel *channel;
	int stream; /* 0 and 1: output; 2: input; 3: a listener */
};

static size_t watch_channels(struct pollfd *fds, struct watched *watched, int *timeout) {
	size_t count = 0;
	bool has_room = buffer_length(&outgoing) < MAX_OUTGOING;
	for (struct channel *channel = channels; channel && count + 3 < MAX_CHANNELS * 3; channel = channel->next) {
		if (channel->kind == LISTENER) {
			fds[count] = (struct pollfd){channel->socket, POLLIN, 0};
			watched[count++] = (struct watched){channel, 3};
			continue;
		}
		for (int stream = 0; stream < 2; stream++) {
			if (channel->out[stream] < 0 || channel->allowed[stream] == 0 || !has_room) continue;
			fds[count] = (struct pollfd){channel->out[stream], POLLIN, 0};
			watched[count++] = (struct watched){channel, stream};
		}
		if (channel->in >= 0 && (channel->is_opening || buffer_length(&channel->pending) > 0)) {
			fds[count] = (struct pollfd){channel->in, POLLOUT, 0};
			watched[count++] = (struct watched){channel, 2};
		}
		if (channel->has_exited && channel->has_terminal) *timeout = TERMINAL_LOOK_MS;
	}
	return count;
}

static void serve(struct channel *channel, int stream) {
	if (channel->is_dead) return;
	if (stream == 3) accept_connection(channel);
	else if (stream == 2 && channel->is_opening) continue_opening(channel);
	else if (stream == 2) write_pending(channel);
	else if (channel->out[stream] >= 0) read_output(channel, stream);
}

/* Arguments: uid, gid, capabilities, processes. */
int resident(int argc, char **argv) {
	static struct pollfd fds[3 + MAX_CHANNELS * 3];
	static struct watched watched[MAX_CHANNELS * 3];
	if (argc < 4) return 2;
	who = (struct identity){atoi(argv[0]), atoi(argv[1]), strtoull(argv[2], NULL, 10), strtoul(argv[3], NULL, 10)};
	prctl(PR_SET_NAME, RESIDENT_NAME);
	prctl(PR_SET_DUMPABLE, 0);
	umask(022);
	limit_privileges(&who);
	sigset_t all, child;
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	int signals = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
	fcntl(0, F_SETFL, O_NONBLOCK);
	fcntl(1, F_SETFL, O_NONBLOCK);
	send_frame(HELLO, 0, NULL, 0);
	for (;;) {
		int timeout = -1;
		if (!write_answers()) return 0;
		size_t count = watch_channels(fds + 3, watched, &timeout);
		fds[0] = (struct pollfd){0, POLLIN, 0};
		fds[1] = (struct pollfd){signals, POLLIN, 0};
		/* A poll for no event still notices the end of the connection. */
		fds[2] = (struct pollfd){1, buffer_length(&outgoing) > 0 ? POLLOUT : 0, 0};
		if (poll(fds, 3 + count, timeout) < 0 && errno != EINTR) return 1;
		if (fds[2].revents & POLLERR) return 0;
		for (size_t at = 0; at < count; at++)
			if (fds[3 + at].revents) serve(watched[at].channel, watched[at].stream);
		if (fds[1].revents) {
			struct signalfd_siginfo info[8];
			while (read(signals, info, sizeof info) > 0) {}
			reap_children();
		}
		if (fds[0].revents && !read_requests()) return 0;
		if (timeout >= 0)
			for (struct channel *channel = channels; channel; channel = channel->next) settle(channel);
		sweep_channels();
	}
}
