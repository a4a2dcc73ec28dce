package arbiter

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/alarm"
	"github.com/gavel-oj/gavel/internal/dispatch"
)

// Metrics of the arbiter; names and meanings are a contract, and labels come
// from closed sets. docs/reference/metrics.md is held to them.
var (
	descTerm    = prometheus.NewDesc("gavel_leader_term", "The term in which this arbiter leads; it grows with each change of leader.", nil, nil)
	descLook    = prometheus.NewDesc("gavel_alarm_look_age_seconds", "Since the leader last looked for alarms.", nil, nil)
	descFleet   = prometheus.NewDesc("gavel_workers", "Workers that are enrolled, by what they are doing.", []string{"state"}, nil)
	descConns   = prometheus.NewDesc("gavel_db_connections", "Connections of this arbiter's pool to its database.", []string{"state"}, nil)
	descMost    = prometheus.NewDesc("gavel_db_connections_max", "Connections that the pool may have.", nil, nil)
	descWaits   = prometheus.NewDesc("gavel_db_connection_wait_seconds_total", "Time that statements have waited for a connection of the pool.", nil, nil)
	descFull    = prometheus.NewDesc("gavel_db_disk_full", "1 while the database finds its disk full.", nil, nil)
	descLeader  = prometheus.NewDesc("gavel_leader", "1 while this arbiter leads.", nil, nil)
	descLoop    = prometheus.NewDesc("gavel_dispatch_loop_age_seconds", "Since the dispatch loop last came round.", nil, nil)
	descOldest  = prometheus.NewDesc("gavel_queue_oldest_age_seconds", "How long the oldest waiting work has waited, without what operators hold.", []string{"lane"}, nil)
	descAlarms  = prometheus.NewDesc("gavel_alarms", "Alarms that are open.", []string{"kind", "severity"}, nil)
	descQueue   = prometheus.NewDesc("gavel_queue_submissions", "Submissions that wait for a worker.", []string{"lane", "language"}, nil)
	descLeases  = prometheus.NewDesc("gavel_leases_active", "Leases that are live as far as the leader knows.", nil, nil)
	descWaiting = prometheus.NewDesc("gavel_claims_waiting", "Claims of workers that wait for work.", nil, nil)
	descWorkers = prometheus.NewDesc("gavel_workers_online", "Workers whose calls arrive.", nil, nil)
	descGranted = prometheus.NewDesc("gavel_leases_granted_total", "Leases that this arbiter has granted.", nil, nil)
	descExpired = prometheus.NewDesc("gavel_leases_expired_total", "Leases that ran out and that this arbiter took back.", nil, nil)
	descFenced  = prometheus.NewDesc("gavel_lease_reports_fenced_total", "Reports that came to this arbiter under a dead lease and were discarded.", nil, nil)
	descHooks   = prometheus.NewDesc("gavel_webhook_deliveries_total", "Attempts to deliver a webhook that this arbiter made.", []string{"result"}, nil)
	descBacklog = prometheus.NewDesc("gavel_webhook_backlog", "Webhook messages that are not delivered yet.", nil, nil)
	descUsedUp  = prometheus.NewDesc("gavel_attempts_exhausted_total", "Work that ended as a system error because its attempts were used up.", nil, nil)
)

// counters are of this process, whoever leads.
type counters struct {
	granted, expired, fenced, usedUp, delivered, refused atomic.Int64

	recorded, failed *prometheus.CounterVec
}

func newCounters() *counters {
	c := &counters{
		recorded: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gavel_results_recorded_total", Help: "Results that came to this arbiter and were recorded, by the kind of the work.",
		}, []string{"kind"}),
		failed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gavel_attempts_failed_total", Help: "Attempts that the system failed, not the program, as reported to this arbiter.",
		}, []string{"blame"}),
	}
	// From the start at 0, so that the first of a kind is seen as an increase.
	for _, kind := range []string{"judge", "rejudge", kindRun, kindPrepare, "probe"} {
		c.recorded.WithLabelValues(kind)
	}
	for _, blame := range []string{gavelapi.BlameHost, gavelapi.BlameToolchain, gavelapi.BlamePackage, gavelapi.BlameChecker} {
		c.failed.WithLabelValues(blame)
	}
	return c
}

// result counts a report that was recorded.
func (c *counters) result(kind string, fault *gavelapi.Fault) {
	if fault != nil {
		c.failed.WithLabelValues(fault.Blame).Inc()
		return
	}
	c.recorded.WithLabelValues(kind).Inc()
}

// Describe implements prometheus.Collector.
func (a *Arbiter) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		descLeader, descLoop, descOldest, descAlarms, descQueue, descLeases, descWaiting, descWorkers, descGranted, descExpired, descFenced, descUsedUp,
		descHooks, descBacklog, descTerm, descLook, descFleet, descConns, descMost, descWaits, descFull,
	} {
		ch <- d
	}
	a.count.recorded.Describe(ch)
	a.count.failed.Describe(ch)
}

// Collect implements prometheus.Collector. A standby reports only that it is
// one, and what it did before. What the leader's memory knows is missing while
// memory cannot be looked at; the age of the loop is there even then.
func (a *Arbiter) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	counter := func(d *prometheus.Desc, v *atomic.Int64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v.Load()), labels...)
	}
	counter(descGranted, &a.count.granted)
	counter(descExpired, &a.count.expired)
	counter(descFenced, &a.count.fenced)
	counter(descUsedUp, &a.count.usedUp)
	counter(descHooks, &a.count.delivered, "delivered")
	counter(descHooks, &a.count.refused, "failed")
	a.count.recorded.Collect(ch)
	a.count.failed.Collect(ch)
	pool := a.db.Pool.Stat()
	gauge(descConns, float64(pool.AcquiredConns()), "used")
	gauge(descConns, float64(pool.IdleConns()), "idle")
	gauge(descMost, float64(pool.MaxConns()))
	ch <- prometheus.MustNewConstMetric(descWaits, prometheus.CounterValue, pool.EmptyAcquireWaitTime().Seconds())
	l := a.current.Load()
	if l == nil {
		gauge(descLeader, 0)
		return
	}
	gauge(descLeader, 1)
	gauge(descTerm, float64(l.term))
	gauge(descLoop, a.clock.Now().Sub(*l.loopedAt.Load()).Seconds())
	gauge(descLook, a.clock.Now().Sub(*l.lookedAt.Load()).Seconds())
	gauge(descFull, bit(l.diskFull.Load()))
	gauge(descBacklog, float64(l.backlog.Load()))
	a.collectAlarms(gauge, l)
	seen, ok := looked(l, func() (m memoryFigures) {
		m.queue, m.leases, m.waiting = l.board.Counts(), len(l.held), len(l.waiters)
		m.workers, m.states = len(l.onlineWorkers(a.clock.Now())), l.workerStates(a.clock.Now())
		return m
	})
	if !ok {
		return
	}
	for _, c := range seen.queue {
		gauge(descQueue, float64(c.Jobs), c.Lane.String(), c.Language)
	}
	gauge(descLeases, float64(seen.leases))
	gauge(descWaiting, float64(seen.waiting))
	gauge(descWorkers, float64(seen.workers))
	for _, state := range workerStates {
		gauge(descFleet, float64(seen.states[state]), state)
	}
}

type memoryFigures struct {
	queue                    []dispatch.Count
	leases, waiting, workers int
	states                   map[string]int
}

func bit(set bool) float64 {
	if set {
		return 1
	}
	return 0
}

// workerStates are those of workerState, and onDatabase.
var workerStates = []string{"idle", "busy", "set_aside", "draining", "paused", "asleep", "offline", onDatabase}

// onDatabase is the state of a worker straight on the database: what it is
// doing the leader does not see.
const onDatabase = "on_database"

// workerStates counts the workers that are enrolled. Needs l.mu.
func (l *leadership) workerStates(now time.Time) map[string]int {
	states, stands := map[string]int{}, l.standings(now)
	edge := *l.edge.Load()
	for id, s := range l.settings {
		switch {
		case s.Disabled:
		case edge[id]:
			states[onDatabase]++
		default:
			states[workerState(s.Away, stands(id), l.isOnline(id, now), len(l.holders[id]))]++
		}
	}
	return states
}

// collectAlarms shows every kind, so that one that never fired is 0 and not missing.
func (a *Arbiter) collectAlarms(gauge func(*prometheus.Desc, float64, ...string), l *leadership) {
	open := map[alarm.Kind]int{}
	if list := a.openAlarms.Load(); list != nil {
		for _, al := range *list {
			open[al.Kind]++
		}
	}
	rules := a.cfg.Alarms.Rules()
	for _, k := range alarm.Kinds() {
		gauge(descAlarms, float64(open[k]), string(k), string(rules[k].Severity))
	}
	ages := map[string]time.Duration{}
	if list := l.oldest.Load(); list != nil {
		for _, o := range *list {
			ages[o.Lane] = o.Age
		}
	}
	for _, lane := range dispatch.Lanes()[1:] { // probes wait for their worker
		gauge(descOldest, ages[lane.String()].Seconds(), lane.String())
	}
}
