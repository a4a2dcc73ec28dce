// Package e2e holds tests that run the built programs as a person would: real
// processes, a real PostgreSQL, the real box. It contains no code but tests.
package e2e
