package httpapi

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type httpMetrics struct {
	duration *prometheus.HistogramVec
}

// newHTTPMetrics registers the API's metrics. Labels are closed sets: route
// patterns, known methods, statuses.
func newHTTPMetrics(reg prometheus.Registerer) *httpMetrics {
	m := &httpMetrics{
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "gavel_http_request_duration_seconds",
			Help:    "Time from the first byte of a request to the end of its answer; long-polls include their wait.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}, []string{"route", "method", "code"}),
	}
	reg.MustRegister(m.duration)
	return m
}

func (m *httpMetrics) observe(route, method string, status int, took time.Duration) {
	m.duration.WithLabelValues(route, methodName(method), strconv.Itoa(status)).Observe(took.Seconds())
}
