// Programs that want to talk to somebody, or to their own next run.
#include "program.h"
#include <arpa/inet.h>
#include <mqueue.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/un.h>

static void cannot_reach(const char *ip, int port, int type) {
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};
	inet_pton(AF_INET, ip, &a.sin_addr);
	int s = socket(AF_INET, type, 0);
	int r = connect(s, (void *)&a, sizeof a);
	if (r == 0 && type == SOCK_DGRAM)
		r = send(s, "x", 1, 0);
	check(s >= 0 && r < 0 && errno == ENETUNREACH, ip);
	close(s);
}

PROGRAM(connect_out) {
	int port = argc > 1 ? atoi(argv[1]) : 80;
	cannot_reach("127.0.0.1", port, SOCK_STREAM);
	cannot_reach("127.0.0.1", 53, SOCK_DGRAM);
	cannot_reach("8.8.8.8", 53, SOCK_DGRAM);
	cannot_reach("169.254.169.254", 80, SOCK_STREAM);
	struct ifreq r = {0};
	strcpy(r.ifr_name, "lo");
	int s = socket(AF_INET, SOCK_DGRAM, 0);
	r.ifr_flags = IFF_UP;
	check(ioctl(s, SIOCSIFFLAGS, &r) != 0, "brought the loopback up");
	return verdict();
}

// A socket of the host in the abstract name space.
PROGRAM(abstract_socket) {
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	strcpy(a.sun_path + 1, argv[1]);
	int s = socket(AF_UNIX, SOCK_STREAM, 0);
	check(connect(s, (void *)&a, sizeof a.sun_family + 1 + strlen(argv[1])) != 0, "reached a socket of the host");
	return verdict();
}

PROGRAM(odd_families) {
	int families[] = {AF_NETLINK, AF_PACKET, AF_ALG, AF_VSOCK, AF_BLUETOOTH, AF_KEY, AF_XDP, AF_TIPC};
	for (unsigned i = 0; i < sizeof families / sizeof *families; i++)
		check(socket(families[i], SOCK_RAW, 0) < 0 && socket(families[i], SOCK_STREAM, 0) < 0 &&
			      socket(families[i], SOCK_DGRAM, 0) < 0 && socket(families[i], SOCK_SEQPACKET, 0) < 0,
		      "socket of an odd family");
	check(socket(AF_INET, SOCK_RAW, 1) < 0, "raw socket");
	int pair[2];
	check(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0, "plain socketpair is refused");
	return verdict();
}

PROGRAM(shared_memory) {
	check(shmget(4242, 4096, IPC_CREAT | 0666) < 0, "System V shared memory");
	check(msgget(4242, IPC_CREAT | 0666) < 0, "System V message queue");
	check(semget(4242, 1, IPC_CREAT | 0666) < 0, "System V semaphore");
	check(mq_open("/q", O_CREAT | O_RDWR, 0600, NULL) < 0, "POSIX message queue");
	return verdict();
}
