// Package pgserver runs the private PostgreSQL of `gavel up`: the
// distribution's own server programs, as a child process, reachable over a
// unix socket only.
//
// # What is where
//
//	DataDir/               ours; root's when gavel runs as root (mode 0711)
//	  owner.lock           flock of the process that owns the cluster, with its pid
//	  cluster/             PGDATA; belongs to the server's user, mode 0700
//	  cluster.partial-*/   an initdb that has not finished
//	  sock/                the socket, mode 0700; elsewhere when the path is too long
//
// # States
//
//	no cluster ──initdb in cluster.partial-X, create database, fsync, rename──▶ cluster
//	        ──postmaster ready──▶ running ──Stop──▶ stopped
//	               ▲                 │ postmaster dies
//	               └──back-off───────┘
//
// # Invariants
//
//	P1  At most one process owns a DataDir: it holds the flock on owner.lock.
//	    The kernel drops the lock when the owner dies, however it dies.
//	P2  cluster/ appears by one rename of a complete, synced directory. A
//	    directory of that name is therefore a real cluster and is never
//	    removed or initialised again; only cluster.partial-* is.
//	P3  No postmaster is started while a server process of the same cluster
//	    lives. Processes left behind by a dead owner are stopped first.
//	P4  Nobody but the server's user and root reaches the socket: the directory
//	    is 0700, and the server does not listen on any address.
//
// # When things die
//
// The owner is killed: the kernel sends the postmaster SIGINT (a fast
// shutdown) as parent-death signal. The signal is bound to the thread that
// forked, so a goroutine locked to its thread starts the postmaster and waits
// for it. If the signal was lost, the next Start finds the orphan by its
// working directory, and stops it. It is stopped rather than adopted because a
// process that is not our child can be neither waited for nor listened to.
// A server that somebody started by hand on our cluster is not ours to stop:
// Start refuses and names it.
//
// The postmaster is killed: its backends notice and exit, we wait for the last
// of them (P3) and start it again, with a growing pause if it keeps dying.
// Clients see broken connections in between and connect again to the same URL.
//
// Power is cut: fsync, full_page_writes and data checksums are on, and
// PostgreSQL recovers from its log. A cut in the middle of the first start
// leaves a cluster.partial-*, which the next start removes.
package pgserver
