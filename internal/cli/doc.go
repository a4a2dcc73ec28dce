// Package cli is gavel's command line: the commands that talk to an arbiter.
// It is a value that a test can run: arguments, environment, streams and the
// context come in, an exit code comes out.
//
// Results go to standard output, in the form that -o names; what is said
// beside them (progress, warnings, errors) goes to standard error. An error is
// one line that says what and where, and one that says what to do. Text that
// came from a server or a user is stripped of control characters before it
// reaches a terminal.
package cli
