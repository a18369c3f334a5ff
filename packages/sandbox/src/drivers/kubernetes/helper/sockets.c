/* TCP connections and listeners on loopback. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "helper.h"

/* Lowest id of a channel that the helper opens. */
enum { FIRST_OWN_ID = 0x40000000, MAX_WAITING = 256 };

static int begin_connecting(int family, uint16_t port) {
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0) return -1;
	struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons(port)};
	four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	int failed = family == AF_INET ? connect(fd, (void *)&four, sizeof four) : connect(fd, (void *)&six, sizeof six);
	if (!failed || errno == EINPROGRESS) return fd;
	int error = errno;
	close(fd);
	errno = error;
	return -1;
}

static void set_connected(struct channel *channel, int fd) {
	int on = 1;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	channel->in = channel->out[0] = channel->socket = fd;
	channel->is_opening = false;
}

void open_connection(uint32_t id, uint16_t port) {
	int fd = begin_connecting(AF_INET, port);
	if (fd < 0) fd = begin_connecting(AF_INET6, port);
	if (fd < 0) return send_failure(id, errno);
	struct channel *channel = add_channel(id, CONNECTION);
	channel->socket = channel->in = fd;
	channel->port = port;
	channel->is_opening = true;
}

void continue_opening(struct channel *channel) {
	int error = 0;
	socklen_t size = sizeof error;
	getsockopt(channel->socket, SOL_SOCKET, SO_ERROR, &error, &size);
	if (error == 0) {
		set_connected(channel, channel->socket);
		send_frame(DONE, channel->id, NULL, 0);
		write_pending(channel);
		return;
	}
	/* A server may listen on the other address only. The second attempt is not repeated. */
	uint16_t port = channel->port;
	int fd = port > 0 ? begin_connecting(AF_INET6, port) : -1;
	if (fd < 0) {
		send_failure(channel->id, error);
		close_channel(channel);
		return;
	}
	channel->port = 0;
	close(channel->socket);
	channel->socket = channel->in = fd;
}

void open_listener(uint32_t id, uint16_t port) {
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), on = 1;
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd >= 0) setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	if (fd < 0 || bind(fd, (void *)&address, sizeof address) != 0 || listen(fd, MAX_WAITING) != 0) {
		send_failure(id, errno);
		if (fd >= 0) close(fd);
		return;
	}
	struct channel *channel = add_channel(id, LISTENER);
	channel->socket = fd;
	send_frame(DONE, id, NULL, 0);
}

void accept_connection(struct channel *listener) {
	static uint32_t next_id = FIRST_OWN_ID;
	int fd = accept4(listener->socket, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0) return;
	struct channel *channel = add_channel(next_id++, CONNECTION);
	set_connected(channel, fd);
	send_number(ACCEPTED, channel->id, listener->id);
}
