package deploy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gavel-oj/gavel/client"
	"github.com/gavel-oj/gavel/gavelapi"
)

// steps are done in the machine, one after the other; the first that fails ends
// it. The last leaves a job at a worker, for the shutdown that follows.
var steps = []step{
	{"the arbiter is ready, with a credential for each of its secrets", (*driver).arbiter},
	{"a worker is enrolled over HTTPS and becomes idle", (*driver).worker},
	{"it judges in boxes whose limits are cgroups below its unit", (*driver).judged},
	{"killed, it is started again and nothing of it is left", (*driver).killed},
	{"the edge worker takes its place, behind the tunnel", (*driver).edge},
	{"stopped together, the worker hands back before the tunnel is down", (*driver).stopped},
	{"a job is at the worker when the machine is shut down", (*driver).holding},
}

const (
	right = "#include <stdio.h>\nint main(void) { int n; scanf(\"%d\", &n); printf(\"%d\\n\", n); return 0; }\n"
	// More than the 32 MiB of its problem, page by page.
	greedy = "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n" +
		"int main(void) { for (int i = 0; i < 512; i++) memset(malloc(1 << 20), 1, 1 << 20); puts(\"1\"); return 0; }\n"
	endless = "int main(void) { for (volatile int i = 0;; i++); }\n"
)

// driver is who does the steps.
type driver struct {
	ctx context.Context
	api *client.Client
	db  *pgx.Conn // as PostgreSQL's own user

	submitted int
	long      int64 // a submission that runs while the worker is killed
}

// failure is a step's end; what else panics is a mistake in the test.
type failure struct{ error }

func (d *driver) try(s step) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case failure:
			err = p.error
		default:
			panic(p)
		}
	}()
	s.do(d)
	return nil
}

func fail(format string, args ...any) { panic(failure{fmt.Errorf(format, args...)}) }

func must(err error) {
	if err != nil {
		panic(failure{err})
	}
}

func (d *driver) close() {
	if d.db != nil {
		_ = d.db.Close(d.ctx)
	}
}

// run runs a command and returns what it prints.
func (d *driver) run(name string, args ...string) string {
	cmd := exec.CommandContext(d.ctx, name, args...)
	cmd.Env = append(os.Environ(), "GAVEL_URL="+arbiterURL, "GAVEL_TOKEN_FILE="+adminToken)
	out, err := cmd.Output()
	if err != nil {
		stderr := ""
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			stderr = string(exit.Stderr)
		}
		fail("%s %s: %w: %s", name, strings.Join(args, " "), err, stderr)
	}
	return strings.TrimSpace(string(out))
}

// until waits for something, as long as a slow machine may take.
func (d *driver) until(what string, look func() bool) {
	ctx, cancel := context.WithTimeout(d.ctx, 5*time.Minute)
	defer cancel()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for !look() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			fail("waited in vain: %s", what)
		}
	}
}

// property of a unit, as systemd has it.
func (d *driver) property(unit, name string) string {
	return d.run("systemctl", "show", "--property="+name, "--value", unit)
}

func (d *driver) number(unit, name string) int64 {
	n, err := strconv.ParseInt(d.property(unit, name), 10, 64)
	must(err)
	return n
}

func (d *driver) active(unit string) {
	if state := d.property(unit, "ActiveState"); state != "active" {
		fail("%s is %s", unit, state)
	}
}

const (
	arbiterURL = "https://127.0.0.1:7272"
	adminToken = "/var/lib/gavel/admin-token"
	unitGroup  = "/sys/fs/cgroup/system.slice/gavel-worker.service"
)

func (d *driver) arbiter() {
	psql := func(database, file string) {
		d.run("psql", "-h", "/run/postgresql", "-U", "postgres", "-d", database, "-v", "ON_ERROR_STOP=1", "-qf", file)
	}
	d.run("psql", "-h", "/run/postgresql", "-U", "postgres", "-d", "postgres", "-qc", "create database site")
	psql("site", "/srv/site.sql")
	d.run("systemctl", "start", "gavel-arbiter")
	d.until("the arbiter writes a token", func() bool { _, err := os.Stat(adminToken); return err == nil })
	token, err := os.ReadFile(adminToken)
	must(err)
	d.api, err = client.New(arbiterURL, strings.TrimSpace(string(token)), client.Options{})
	must(err)
	d.until("the arbiter leads", func() bool { h, err := d.api.Ready(d.ctx); return err == nil && h.Status == "ok" })
	d.active("gavel-arbiter")
	psql("site", "/srv/home.sql")
	d.db, err = pgx.Connect(d.ctx, "host=/run/postgresql user=postgres dbname=site")
	must(err)
	for _, problem := range []string{"echo", "patience"} {
		d.run("gavel", "problem", "import", "--no-verify", "--reason", "no worker yet", "/srv/"+problem)
	}
}

func (d *driver) worker() {
	var invitation *gavelapi.Invitation
	d.asked("invite", func() (err error) {
		invitation, err = d.api.WorkerInvite(d.ctx, gavelapi.NewInvitation{Pool: "home", ValidSeconds: 3600})
		return err
	})
	d.run("gavel-worker", "enroll", "--url", arbiterURL, "--name", "home-1", "--invitation", invitation.Code)
	d.run("systemctl", "start", "gavel-worker")
	d.until("the worker is idle", func() bool { return d.state() == "idle" })
	d.active("gavel-worker")
}

func (d *driver) state() string {
	w, err := d.api.WorkerGet(d.ctx, "home-1")
	if err != nil {
		return err.Error()
	}
	return w.State
}

// asked repeats a call that may be repeated: on a machine this slow an arbiter
// is without its database now and then.
func (d *driver) asked(what string, call func() error) {
	var last error
	d.until(what, func() bool { last = call(); _, temporary := client.Temporary(last); return !temporary })
	must(last)
}

func (d *driver) submit(problem, source string) int64 {
	d.submitted++
	var s *gavelapi.Submission
	d.asked("submit", func() (err error) {
		s, err = d.api.SubmissionCreate(d.ctx, gavelapi.NewSubmission{Problem: problem, Language: "c", Source: source}, fmt.Sprint("units-", d.submitted))
		return err
	})
	return s.ID
}

func (d *driver) cancel(id int64) {
	d.asked("cancel", func() error { _, err := d.api.SubmissionCancel(d.ctx, id, "done with it"); return err })
}

func (d *driver) judged() {
	for source, want := range map[string]string{right: "AC", greedy: "MLE", endless: "TLE"} {
		id := d.submit("echo", source)
		var s *gavelapi.Submission
		d.until("a verdict", func() bool {
			got, err := d.api.SubmissionGet(d.ctx, id, time.Second)
			s = got
			return err == nil && gavelapi.Final(s.State)
		})
		if s.Verdict != want {
			fail("%s instead of %s; fault %+v", s.Verdict, want, s.Fault)
		}
	}
	// A program that runs is in a cgroup of the unit's, with the limit of its problem.
	d.long = d.submit("patience", endless)
	box := d.box()
	limit, err := os.ReadFile(filepath.Join(box, "memory.max"))
	must(err)
	if got := strings.TrimSpace(string(limit)); got != strconv.Itoa(32<<20) {
		fail("%s has memory.max %s", box, got)
	}
}

// box waits for the cgroup of a program that runs, below the worker's unit.
func (d *driver) box() (found string) {
	d.until("a program runs in a cgroup below "+unitGroup, func() bool {
		groups, err := filepath.Glob(unitGroup + "/gavel-boxes-*/slot*/run*")
		must(err)
		for _, g := range groups {
			pids, _ := os.ReadFile(filepath.Join(g, "cgroup.procs")) // gone meanwhile: no
			for pid := range strings.FieldsSeq(string(pids)) {
				if exe, _ := os.Readlink("/proc/" + pid + "/exe"); strings.HasSuffix(exe, "/prog") {
					found = g
				}
			}
		}
		return found != ""
	})
	return found
}

func (d *driver) killed() {
	before := d.property("gavel-worker", "MainPID")
	d.run("systemctl", "kill", "--kill-whom=main", "--signal=KILL", "gavel-worker")
	d.until("systemd starts the worker again", func() bool {
		pid := d.property("gavel-worker", "MainPID")
		return pid != "0" && pid != before && d.property("gavel-worker", "ActiveState") == "active"
	})
	if n := d.number("gavel-worker", "NRestarts"); n != 1 {
		fail("%d restarts", n)
	}
	if left, _ := filepath.Glob(unitGroup + "/gavel-boxes-" + before + "-*"); len(left) > 0 {
		procs, _ := os.ReadFile(filepath.Join(left[0], "cgroup.procs"))
		fail("of the killed worker %v is left, with %q", left, procs)
	}
	// Its job is done by nobody else: the successor takes it and the attempt is lost.
	d.until("the successor works", func() bool { s := d.state(); return s == "idle" || s == "busy" })
}

func (d *driver) edge() {
	// It was enrolled first: docs/reference/edge-worker.md says that it needs this row.
	_, err := d.db.Exec(d.ctx, "insert into gavel_tables.edge_workers (worker_id, login) select id, 'home' from gavel_tables.workers where name = 'home-1'")
	must(err)
	d.run("systemctl", "start", "gavel-edge-worker")
	d.active("gavel-edge-worker")
	d.active("gavel-tunnel")
	if state := d.property("gavel-worker", "ActiveState"); state != "inactive" {
		fail("gavel-worker is %s beside gavel-edge-worker", state)
	}
	if up, began := d.number("gavel-tunnel", "ActiveEnterTimestampMonotonic"), d.number("gavel-edge-worker", "ExecMainStartTimestampMonotonic"); up > began {
		fail("the worker was started %d µs before the tunnel", up-began)
	}
	if mode := d.property("gavel-edge-worker", "Delegate"); mode != "yes" {
		fail("Delegate is %q", mode)
	}
	d.cancel(d.long)
}

// attempt is the last one of a submission, and what its job is now.
type attempt struct {
	Outcome, Worker, State string
	Attempts               int
	Confirmed              bool
}

func (d *driver) attempt(submission int64) attempt {
	rows, err := d.db.Query(d.ctx, `select a.outcome, w.name, coalesce(j.state, ''), coalesce(j.attempts, 0), coalesce(j.confirmed, false)
		from gavel_tables.attempts a join gavel_tables.workers w on w.id = a.worker_id left join gavel_tables.jobs j on j.id = a.job_id
		where a.submission_id = $1 order by a.lease_gen desc limit 1`, submission)
	must(err)
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[attempt])
	must(err)
	return slices.MaxFunc(append(found, attempt{}), func(a, b attempt) int { return cmp.Compare(a.Outcome, b.Outcome) })
}

// held hands something in that runs for long, and waits until the edge worker
// has shown that it has it: a grant that is still on its way is handed back by
// nobody, and comes back by itself.
func (d *driver) held() int64 {
	id := d.submit("patience", endless)
	d.until("the edge worker holds the job", func() bool {
		return d.attempt(id) == (attempt{"running", "home-1", "leased", 1, true})
	})
	return id
}

func (d *driver) stopped() {
	id := d.held()
	d.run("systemctl", "stop", "gavel-edge-worker", "gavel-tunnel")
	if got, want := d.attempt(id), (attempt{"released", "home-1", "pending", 0, false}); got != want {
		fail("after the stop the attempt is %+v, not %+v", got, want)
	}
	for _, unit := range []string{"gavel-edge-worker", "gavel-tunnel"} {
		if result := d.property(unit, "Result"); result != "success" {
			fail("%s ended with %s", unit, result)
		}
	}
	d.cancel(id)
}

func (d *driver) holding() {
	d.run("systemctl", "start", "gavel-edge-worker")
	d.held()
}
