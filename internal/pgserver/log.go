package pgserver

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
)

// logPipe passes what the server prints to our logger and keeps the last
// lines for the error message of a failed start.
type logPipe struct {
	logger *slog.Logger
	mu     sync.Mutex
	last   []string
	done   chan struct{} // closed at end of file: no server process writes any more
}

func newLogPipe(ctx context.Context, logger *slog.Logger) (*logPipe, *os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, fmt.Errorf("pipe for the server's log: %w", err)
	}
	l := &logPipe{logger: logger, done: make(chan struct{})}
	go func() {
		defer close(l.done)
		defer r.Close()
		l.read(ctx, r)
	}()
	return l, w, nil
}

func (l *logPipe) read(ctx context.Context, r io.Reader) {
	br := bufio.NewReaderSize(r, 16<<10)
	level := slog.LevelDebug
	for {
		// A line longer than the buffer arrives in pieces, which is good enough for a log.
		line, _, err := br.ReadLine()
		if err != nil {
			return
		}
		text := strings.TrimSpace(string(line))
		if text == "" {
			continue
		}
		kind, rest, _ := strings.Cut(text, ":")
		switch kind {
		case "LOG", "ERROR", "NOTICE", "INFO":
			// A client's ERROR is the client's to report; it is here for debugging only.
			level = slog.LevelDebug
		case "WARNING", "FATAL":
			level = slog.LevelWarn
			if passing(rest) {
				level = slog.LevelDebug
			}
		case "PANIC":
			level = slog.LevelError
		case "HINT":
		case "DETAIL", "STATEMENT", "QUERY", "CONTEXT":
			if level == slog.LevelDebug {
				continue // may quote stored values or parameters
			}
		default: // the rest of a message of several lines
			kind, rest = "", text
		}
		l.mu.Lock()
		if l.last = append(l.last, text); len(l.last) > 6 {
			l.last = l.last[1:]
		}
		l.mu.Unlock()
		l.logger.Log(ctx, level, "postgres says", "severity", strings.ToLower(kind), "text", strings.TrimSpace(rest))
	}
}

// passing reports whether a FATAL only turns one client away because the
// server is on its way up or down. Clients that try again would fill the log.
func passing(text string) bool {
	text = strings.TrimSpace(text)
	return strings.HasPrefix(text, "the database system is ") || strings.HasPrefix(text, "terminating connection due to ")
}

// lastLines returns the last lines in one line.
func (l *logPipe) lastLines() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.last, " | ")
}
