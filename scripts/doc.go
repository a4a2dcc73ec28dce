// Package scripts holds no Go: its tests run the shell scripts beside it.
package scripts
