package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/gavel-oj/gavel/client"
	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/cmdline"
	"github.com/gavel-oj/gavel/internal/worker"
)

// maxTokenBytes bounds a token file: what is longer is another file.
const maxTokenBytes = 4096

type enrollCmd struct {
	common

	Invitation string `placeholder:"CODE" help:"From gavel worker invite. Better in $$GAVEL_WORKER_INVITATION: others can see command lines."`
	Name       string `placeholder:"NAME" help:"Unique name of this worker (default the host's name)."`
	Force      bool   `help:"Replace the token that is there."`
}

// Run implements the command.
func (c *enrollCmd) Run(ctx context.Context, w world) error {
	s, err := resolve(c.common, given{"name": c.Name}, w.environ)
	if err != nil {
		return err
	}
	ctx, cancel := untilSignal(ctx, w)
	defer cancel()
	s.invitation = first(c.Invitation, s.invitation)
	if s.invitation == "" {
		return usage("an administrator gets one with: gavel worker invite", "no invitation is given (--invitation or GAVEL_WORKER_INVITATION)")
	}
	if exists(filepath.Join(s.stateDir, tokenName)) && !c.Force {
		return &failure{exitConflict, "this worker has a token already, in " + s.stateDir, "use another --state-dir for another worker, or --force for a new token"}
	}
	state, err := worker.OpenState(s.stateDir)
	if err != nil {
		return err
	}
	defer state.Close()
	got, err := s.enrol(ctx, state)
	if err != nil {
		return err
	}
	fmt.Fprintf(w.out, "enrolled as %s (pool %s); the token is in %s\n", got.Name, got.Pool, filepath.Join(s.stateDir, tokenName))
	return nil
}

// enrol trades the invitation for a token and keeps it. The call is made once:
// an invitation works once, so a lost answer needs a new one.
func (s *settings) enrol(ctx context.Context, state *worker.State) (*gavelapi.EnrolResponse, error) {
	name := s.name
	if name == "" {
		host, err := os.Hostname()
		if err != nil || host == "" {
			return nil, usage("give one with --name", "this machine has no name to use")
		}
		name, _, _ = strings.Cut(host, ".")
	}
	c, err := s.client("")
	if err != nil {
		return nil, err
	}
	defer c.Close()
	got, err := c.Enrol(ctx, gavelapi.EnrolRequest{Invitation: s.invitation, Name: name})
	if err != nil {
		return nil, err
	}
	if err := state.Save(tokenName, []byte(got.Token+"\n")); err != nil {
		return nil, apperr.Wrap(err, apperr.Internal, "make room or give another --state-dir, and ask for a new invitation: this one is used up", "the token cannot be saved")
	}
	// For later runs without flags. Theirs win over this.
	conf := file{URL: s.url, Name: got.Name}
	if !exists(filepath.Join(s.stateDir, configName)) {
		text, err := yaml.Marshal(conf)
		if err != nil {
			return nil, err
		}
		if err := state.Save(configName, text); err != nil {
			return nil, err
		}
	}
	return got, nil
}

// credentials finds the token, or enrols when there is none but an invitation.
// An arbiter that is not there yet is waited for.
func (s *settings) credentials(ctx context.Context, state *worker.State, log *slog.Logger) (string, error) {
	if s.token != "" {
		return s.token, nil
	}
	if s.tokenFile != "" {
		return readToken(s.tokenFile)
	}
	token, err := readToken(filepath.Join(s.stateDir, tokenName))
	if !errors.Is(err, fs.ErrNotExist) {
		return token, err
	}
	if s.invitation == "" {
		return "", &failure{exitUsage, "this worker has no token", "enrol it: gavel worker invite on the arbiter's side, then gavel-worker enroll --url URL --invitation CODE"}
	}
	pause := client.NewPause(500*time.Millisecond, 15*time.Second)
	got, err := client.Retry(ctx, pause, func(ctx context.Context) (*gavelapi.EnrolResponse, error) { return s.enrol(ctx, state) },
		func(err error, wait time.Duration) {
			log.Warn("cannot enrol yet, trying again", "error", err, "wait_ms", wait.Milliseconds())
		})
	if err != nil {
		return "", err
	}
	log.Info("enrolled", "name", got.Name, "pool", got.Pool)
	return got.Token, nil
}

func readToken(name string) (string, error) {
	f, err := cmdline.OpenFile(name)
	if errors.Is(err, cmdline.ErrNoFile) {
		return "", usage("name a file that holds the token alone", "the token cannot be read: %v", err)
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	b := make([]byte, maxTokenBytes+1)
	n, err := f.Read(b)
	if err != nil && n == 0 || n > maxTokenBytes {
		return "", &failure{exitUsage, "the token file " + name + " holds no token", "enrol again with gavel-worker enroll --force"}
	}
	return strings.TrimSpace(string(b[:n])), nil
}

func (s *settings) client(token string) (*client.Client, error) {
	c, err := client.New(s.url, token, client.Options{UserAgent: userAgent()})
	if err != nil {
		return nil, usage("set --url or GAVEL_URL", "%v", err)
	}
	return c, nil
}
