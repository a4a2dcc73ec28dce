package edge

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gavel-oj/gavel/internal/store"
	"github.com/gavel-oj/gavel/internal/store/storedb"
)

// Stage is where a deployment stands between edge pull and the arbiter
// (docs/design/edge-pull.md, the staged switch), and what comes next.
type Stage struct {
	// Stage is 1 to 4, or 0 when no worker is alive.
	Stage   int    `json:"stage"`
	Name    string `json:"name"`
	Leading string `json:"leading"` // which arbiter leads, "" when none does
	// Workers seen lately, the preferred ones first. Only those that are alive count.
	Workers []StageWorker `json:"workers"`
	ByEdge  int           `json:"by_edge"`
	ByHTTP  int           `json:"by_arbiter"`
	Logins  []StageLogin  `json:"logins"`
	Shared  StageShared   `json:"shared"`
	// Left is what this stage still asks for; Next what the next one does.
	Left []string `json:"left"`
	Next []string `json:"next"`
}

// StageWorker is a worker that was seen lately.
type StageWorker struct {
	Name    string    `json:"name"`
	Pool    string    `json:"pool"`
	Rank    int       `json:"rank"`
	Way     string    `json:"way"` // "edge" or "arbiter"
	Login   string    `json:"login,omitempty"`
	Alive   bool      `json:"alive"` // gave a sign of life within a lease's time
	Healthy bool      `json:"healthy"`
	Leases  int       `json:"leases"`
	SeenAt  time.Time `json:"seen_at"`
}

// StageLogin is a database login that may work straight on the database.
type StageLogin struct {
	Login    string `json:"login"`
	Sessions int    `json:"sessions"`
	Workers  int    `json:"workers"` // of it that were seen lately on the edge way
}

// StageShared is what the old way shared.
type StageShared struct {
	Table     string `json:"table"`
	HasTable  bool   `json:"has_table"`
	Role      string `json:"role"`
	HasRole   bool   `json:"has_role"`
	Lock      int64  `json:"lock"`
	LockUsers int    `json:"lock_users"`
}

// Ways of a worker to its work.
const (
	wayEdge    = "edge"
	wayArbiter = "arbiter"
)

var stageNames = []string{
	"no worker is alive",
	"edge workers only",
	"some preferred workers by way of an arbiter, the rest straight on the database",
	"all preferred workers by way of an arbiter",
	"all workers by way of an arbiter",
}

// StageOptions name the old way's shared things, and what counts as lately.
type StageOptions struct {
	Since    time.Duration
	OldTable string
	OldRole  string
	OldLock  int64
}

// ReadStage looks at the database of a deployment.
func ReadStage(ctx context.Context, db *store.DB, opts StageOptions) (Stage, error) {
	s := Stage{Shared: StageShared{Table: opts.OldTable, Role: opts.OldRole, Lock: opts.OldLock}, Workers: []StageWorker{}, Logins: []StageLogin{}, Left: []string{}, Next: []string{}}
	leader, err := db.Q.ReadLeadership(ctx, db.Pool, 0)
	if err != nil {
		return s, fmt.Errorf("read leadership: %w", err)
	}
	if !leader.Expired {
		s.Leading = leader.Holder
	}
	workers, err := db.Q.StageWorkers(ctx, db.Pool, opts.Since)
	if err != nil {
		return s, fmt.Errorf("read workers: %w", err)
	}
	for _, w := range workers {
		way := wayArbiter
		if w.Edge {
			way = wayEdge
		}
		s.Workers = append(s.Workers, StageWorker{
			Name: w.Name, Pool: w.Pool, Rank: int(w.Rank), Way: way, Login: w.Login, Alive: w.Alive, Healthy: w.Alive && w.Healthy, Leases: int(w.Leases), SeenAt: w.SeenAt.UTC(),
		})
	}
	logins, err := db.Q.StageLogins(ctx, db.Pool)
	if err != nil {
		return s, fmt.Errorf("read logins: %w", err)
	}
	for _, l := range logins {
		s.Logins = append(s.Logins, StageLogin{Login: l.Login, Sessions: int(l.Sessions)})
	}
	shared, err := db.Q.StageShared(ctx, db.Pool, &storedb.StageSharedParams{OldTable: opts.OldTable, OldRole: opts.OldRole, OldLock: opts.OldLock})
	if err != nil {
		return s, fmt.Errorf("look for what the old way shared: %w", err)
	}
	s.Shared.HasTable, s.Shared.HasRole, s.Shared.LockUsers = shared.HasTable, shared.HasRole, int(shared.LockUsers)
	unlimited, err := db.Q.StageLimits(ctx, db.Pool)
	if err != nil {
		return s, fmt.Errorf("read limits: %w", err)
	}
	preparing, err := db.Q.StagePreparations(ctx, db.Pool)
	if err != nil {
		return s, fmt.Errorf("read preparations: %w", err)
	}
	s.judge()
	if preparing > 0 && s.ByHTTP == 0 {
		s.Left = append(s.Left, fmt.Sprintf("%d packages wait to be prepared, which edge workers do not do: start a gavel-worker at the arbiter, or import them with --no-verify", preparing))
	}
	if unlimited > 0 {
		s.Left = append(s.Left, fmt.Sprintf("%d published problems cannot be submitted to by SQL: run an arbiter of this version once", unlimited))
	}
	return s, nil
}

// judge says which stage the facts are, what it still asks for, and what the
// next one does.
func (s *Stage) judge() {
	var homeByEdge, othersByEdge []string
	var alive []StageWorker
	asleep := map[string]bool{} // logins whose worker is dead and may come back
	for _, w := range s.Workers {
		if w.Alive {
			alive = append(alive, w)
			continue
		}
		asleep[w.Login] = w.Way == wayEdge || asleep[w.Login]
		s.Left = append(s.Left, fmt.Sprintf("worker %s is dead: no sign of life since %s; start it, or gavel worker remove %s", w.Name, w.SeenAt.Format("15:04:05 MST"), w.Name))
	}
	for _, w := range alive {
		home := w.Rank == s.Workers[0].Rank // they come in the order of preference
		switch {
		case w.Way == wayArbiter:
			s.ByHTTP++
			continue
		case home:
			homeByEdge = append(homeByEdge, w.Name)
		default:
			othersByEdge = append(othersByEdge, w.Name)
		}
		s.ByEdge++
		for i := range s.Logins {
			if s.Logins[i].Login == w.Login {
				s.Logins[i].Workers++
			}
		}
	}
	switch {
	case len(alive) == 0:
		s.Stage = 0
	case s.ByHTTP == 0:
		s.Stage = 1
	case s.ByEdge == 0:
		s.Stage = 4
	case len(homeByEdge) > 0:
		s.Stage = 2
	default:
		s.Stage = 3
	}
	s.Name = stageNames[s.Stage]
	if s.Leading == "" && s.Stage != 1 {
		s.Left = append(s.Left, "no arbiter leads: start gavel serve on this database")
	}
	for _, w := range alive {
		if !w.Healthy && w.Way == wayEdge {
			s.Left = append(s.Left, fmt.Sprintf("worker %s is unhealthy: its log and last_error in edge_workers say why", w.Name))
		}
	}
	switch s.Stage {
	case 0:
		s.Next = []string{"start the workers: gavel edge-worker on the database, or gavel-worker at an arbiter"}
	case 1:
		if s.Leading == "" {
			s.Next = append(s.Next, "start gavel serve on this database; edge workers go on beside it")
		}
		first := "one of them is dead now"
		if len(homeByEdge) > 0 {
			first = homeByEdge[0]
		}
		s.Next = append(s.Next, "stop one preferred worker ("+first+"), enrol it with gavel worker invite and gavel-worker enroll under its name, start gavel-worker")
	case 2:
		s.Next = append(s.Next, "do the same with the other preferred workers: "+strings.Join(homeByEdge, ", "))
	case 3:
		for _, l := range s.Logins {
			if l.Workers == 0 && !asleep[l.Login] {
				s.Left = append(s.Left, "the login "+l.Login+" has no worker any more: drop role "+l.Login)
			}
		}
		s.Next = append(s.Next, "do the same with the others: "+strings.Join(othersByEdge, ", "))
	case 4:
		for _, l := range s.Logins {
			if asleep[l.Login] {
				continue
			}
			s.Left = append(s.Left, "the login "+l.Login+" may still work on the database: drop role "+l.Login)
		}
	}
	s.leftovers()
	slices.Sort(s.Left)
}

// leftovers are the old way's shared things; they are needed by nobody once
// all workers are gavel's, and hold up who still uses them.
func (s *Stage) leftovers() {
	if s.Shared.LockUsers > 0 {
		s.Left = append(s.Left, fmt.Sprintf("%d sessions hold or want the old site-wide lock %d: some worker is still the old program", s.Shared.LockUsers, s.Shared.Lock))
	}
	if s.Stage != 4 {
		return
	}
	if s.Shared.HasTable {
		s.Left = append(s.Left, "the old shared row is still there: drop table "+s.Shared.Table)
	}
	if s.Shared.HasRole {
		s.Left = append(s.Left, "the old login is still there: drop role "+s.Shared.Role)
	}
}
