package arbiter

import (
	"github.com/prometheus/client_golang/prometheus"
)

// Metrics of the arbiter; names and meanings are a contract, and labels come
// from closed sets.
var (
	descLeader  = prometheus.NewDesc("gavel_leader", "1 while this arbiter leads.", nil, nil)
	descQueue   = prometheus.NewDesc("gavel_queue_submissions", "Submissions that wait for a worker.", []string{"lane", "language"}, nil)
	descLeases  = prometheus.NewDesc("gavel_leases_active", "Leases that are live as far as the leader knows.", nil, nil)
	descWaiting = prometheus.NewDesc("gavel_claims_waiting", "Claims of workers that wait for work.", nil, nil)
	descWorkers = prometheus.NewDesc("gavel_workers_online", "Workers whose calls arrive.", nil, nil)
)

// Describe implements prometheus.Collector.
func (a *Arbiter) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descLeader, descQueue, descLeases, descWaiting, descWorkers} {
		ch <- d
	}
}

// Collect implements prometheus.Collector. A standby reports only that it is one.
func (a *Arbiter) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v int, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v), labels...)
	}
	l := a.current.Load()
	if l == nil {
		gauge(descLeader, 0)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	gauge(descLeader, 1)
	for _, c := range l.board.Counts() {
		gauge(descQueue, c.Jobs, c.Lane.String(), c.Language)
	}
	gauge(descLeases, len(l.held))
	gauge(descWaiting, len(l.waiters))
	gauge(descWorkers, len(l.onlineWorkers(a.clock.Now())))
}
