package arbiter

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/auth"
	"github.com/gavel-oj/gavel/internal/store/storedb"
)

// validName of workers and pools: what a path, a label and a person can read.
var validName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// Enrol implements httpapi.Service.
func (a *Arbiter) Enrol(ctx context.Context, req gavelapi.EnrolRequest) (gavelapi.EnrolResponse, error) {
	var none gavelapi.EnrolResponse
	if !validName.MatchString(req.Name) {
		return none, apperr.New(apperr.Invalid, "use letters, digits, dot, dash and underscore, at most 64", "this cannot be a worker's name").At("body.name")
	}
	secret, hash := auth.NewToken(auth.Worker)
	invitation := auth.Hash(req.Invitation)
	id, pool, err := a.db.Enrol(ctx, invitation[:], req.Name, hash[:])
	if err != nil {
		if apperr.CodeOf(err) != apperr.Internal {
			return none, err
		}
		return none, unavailable(err, "enrol a worker")
	}
	a.log.Info("worker enrolled", "worker_id", id, "worker", req.Name, "pool", pool)
	return gavelapi.EnrolResponse{WorkerID: id, Name: req.Name, Pool: pool, Token: secret}, nil
}

// Invite implements httpapi.Service.
func (a *Arbiter) Invite(ctx context.Context, p auth.Principal, inv gavelapi.NewInvitation) (gavelapi.Invitation, error) {
	var none gavelapi.Invitation
	if inv.Pool == "" {
		inv.Pool = "default"
	}
	if !validName.MatchString(inv.Pool) {
		return none, apperr.New(apperr.Invalid, "use letters, digits, dot, dash and underscore, at most 64", "this cannot be a pool's name").At("body.pool")
	}
	valid := time.Hour
	if inv.ValidSeconds > 0 {
		valid = time.Duration(inv.ValidSeconds) * time.Second
	}
	secret, hash := auth.NewToken(auth.Invitation)
	var row *storedb.InsertTokenRow
	err := a.carryOut(ctx, p, deed{action: "worker.invite", subject: "pool " + inv.Pool, reason: inv.Reason, details: inv, do: func(tx pgx.Tx) (err error) {
		row, err = a.q.InsertToken(ctx, tx, &storedb.InsertTokenParams{
			Kind: string(auth.Invitation), Hash: hash[:], Note: fmt.Sprintf("by token %d", p.TokenID), Pool: inv.Pool, Valid: &valid,
		})
		return err
	}})
	if err != nil {
		return none, err
	}
	return gavelapi.Invitation{Code: secret, Pool: inv.Pool, ExpiresAt: row.ExpiresAt.UTC()}, nil
}

// Workers implements httpapi.Service.
func (a *Arbiter) Workers(ctx context.Context) (gavelapi.WorkerList, error) {
	list, err := a.listWorkers(ctx, "")
	return gavelapi.WorkerList{Workers: list}, err
}

// Worker implements httpapi.Service.
func (a *Arbiter) Worker(ctx context.Context, name string) (gavelapi.WorkerInfo, error) {
	if name == "" {
		return gavelapi.WorkerInfo{}, noWorker(name)
	}
	list, err := a.listWorkers(ctx, name)
	if err == nil && len(list) == 0 {
		err = noWorker(name)
	}
	if err != nil {
		return gavelapi.WorkerInfo{}, err
	}
	return list[0], nil
}

func noWorker(name string) error {
	return apperr.New(apperr.NotFound, "gavel worker list shows all", "there is no worker %q", name)
}

// listWorkers lists one worker, or all when the name is empty.
func (a *Arbiter) listWorkers(ctx context.Context, name string) ([]gavelapi.WorkerInfo, error) {
	rows, err := a.q.ListWorkers(ctx, a.db.Pool, name)
	if err != nil {
		return nil, unavailable(err, "list workers")
	}
	online := map[int64]bool{}
	standing := func(int64) standing { return standing{} }
	if l := a.current.Load(); l != nil {
		l.mu.Lock()
		for _, w := range l.onlineWorkers(a.clock.Now()) {
			online[w.ID] = true
		}
		standing = l.standings(a.clock.Now())
		l.mu.Unlock()
	} else { // what the leader has written down of them
		for _, r := range rows {
			online[r.ID] = r.LastSeenAt != nil && a.clock.Now().Sub(*r.LastSeenAt) < onlineFor+writtenLate
		}
	}
	list := make([]gavelapi.WorkerInfo, 0, len(rows))
	for _, r := range rows {
		w := gavelapi.WorkerInfo{
			ID: r.ID, Name: r.Name, Pool: r.Pool, Rank: int(r.Rank), Slots: int(r.Slots), Leases: int(r.Leases), Tags: r.Tags, Lanes: r.Lanes,
			LastSeenAt: utc(r.LastSeenAt), EnrolledAt: r.EnrolledAt.UTC(),
			Away: awayReason(r.Away, r.AwayNote, r.AwayUntil),
		}
		if r.Away != "" {
			w.AwayUntil = utc(r.AwayUntil)
		}
		w.Unreadable = readStored(fmt.Sprintf("worker %d", r.ID), "restart the worker: it says them anew; if it does not help, gavel worker remove",
			stored{"capabilities", r.Capabilities, &w.Capabilities})
		s := standing(r.ID)
		w.SpeedFactor = s.speed
		if w.Away == "" {
			w.Away = s.away
		}
		w.State = workerState(r.Away, s, online[r.ID] || r.OnDatabase, w.Leases)
		list = append(list, w)
	}
	return list, nil
}

// workerState is what a worker is doing, in the words of the API; away is what
// an operator has said.
func workerState(away string, s standing, online bool, leases int) string {
	switch {
	case away != "" && online:
		return away
	case s.asleep && leases == 0:
		return "asleep"
	case !online:
		return "offline"
	case s.aside:
		return "set_aside"
	case leases > 0:
		return "busy"
	}
	return "idle"
}

// knownAs is the name under which people know a worker. One that was removed has
// its number behind a tilde, which no name of a living one can have, so that the
// name is free again.
func knownAs(name string) string {
	if name, _, removed := strings.Cut(name, "~"); removed {
		return name + " (removed)"
	}
	return name
}

// Languages implements httpapi.Service.
func (a *Arbiter) Languages(ctx context.Context) (gavelapi.LanguageList, error) {
	versions := map[string][]string{}
	if l := a.current.Load(); l != nil {
		l.mu.Lock()
		for _, w := range l.onlineWorkers(a.clock.Now()) {
			for _, o := range l.presence[w.ID].caps.Languages {
				versions[o.ID] = appendNew(versions[o.ID], o.Version)
			}
		}
		l.mu.Unlock()
	} else { // what the leader has written down of them
		workers, err := a.listWorkers(ctx, "")
		if err != nil {
			return gavelapi.LanguageList{}, err
		}
		for _, w := range workers {
			for _, o := range w.Capabilities.Languages {
				if w.State != "offline" {
					versions[o.ID] = appendNew(versions[o.ID], o.Version)
				}
			}
		}
	}
	var list gavelapi.LanguageList
	for _, lang := range a.cfg.Languages.All() {
		list.Languages = append(list.Languages, gavelapi.LanguageInfo{
			ID: lang.ID, Name: lang.Name, Extensions: lang.Extensions, DefaultFor: lang.DefaultFor, Versions: versions[lang.ID],
		})
	}
	return list, nil
}

func appendNew(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}
