package serve

import (
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"

	"github.com/gavel-oj/gavel/internal/buildinfo"
)

var (
	descBuild = prometheus.NewDesc("gavel_build_info", "1; the labels say what is running.", []string{"version", "commit", "go"}, nil)
	descFree  = prometheus.NewDesc("gavel_data_free_bytes", "Room on the file system of the data directory, as far as gavel may use it.", nil, nil)
	descSize  = prometheus.NewDesc("gavel_data_size_bytes", "Size of the file system of the data directory.", nil, nil)
)

// place is the metrics of a program and of where it keeps its data.
type place struct{ dir string }

// Describe implements prometheus.Collector.
func (place) Describe(ch chan<- *prometheus.Desc) {
	ch <- descBuild
	ch <- descFree
	ch <- descSize
}

// Collect implements prometheus.Collector. Of a directory that cannot be looked
// at the figures are missing.
func (p place) Collect(ch chan<- prometheus.Metric) {
	ch <- prometheus.MustNewConstMetric(descBuild, prometheus.GaugeValue, 1, buildinfo.Version, buildinfo.Commit, buildinfo.Go)
	var fs unix.Statfs_t
	if unix.Statfs(p.dir, &fs) != nil {
		return
	}
	block := float64(fs.Bsize)
	ch <- prometheus.MustNewConstMetric(descFree, prometheus.GaugeValue, float64(fs.Bavail)*block)
	ch <- prometheus.MustNewConstMetric(descSize, prometheus.GaugeValue, float64(fs.Blocks)*block)
}
