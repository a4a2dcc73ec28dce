package deploy

import (
	"context"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/gavel-oj/gavel/client"
	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/serve"
	"github.com/gavel-oj/gavel/internal/store/storetest"
)

func TestMain(m *testing.M) {
	if part := os.Getenv("GAVEL_UNITS"); part != "" { // in the machine of units_test.go
		os.Exit(inMachine(part))
	}
	storetest.Main(m)
}

// family is a metric as it was seen on /metrics.
type family struct {
	kind   string              // gauge, counter or histogram
	labels map[string][]string // the values that were seen
}

func (f family) names() []string {
	var names []string
	for name := range f.labels {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// scrape reads /metrics as Prometheus does.
func scrape(t *testing.T, url string) map[string]family {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Client{Timeout: time.Minute}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	parsed, err := parser.TextToMetricFamilies(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	families := map[string]family{}
	for name, mf := range parsed {
		f := family{kind: strings.ToLower(mf.GetType().String()), labels: map[string][]string{}}
		for _, m := range mf.GetMetric() {
			note(f.labels, m)
		}
		families[name] = f
	}
	return families
}

func note(labels map[string][]string, m *dto.Metric) {
	for _, l := range m.GetLabel() {
		if !slices.Contains(labels[l.GetName()], l.GetValue()) {
			labels[l.GetName()] = append(labels[l.GetName()], l.GetValue())
		}
	}
}

// exposed is what an arbiter shows that leads and for which a run waits.
func exposed(t *testing.T) map[string]family {
	t.Helper()
	srv, err := serve.Start(t.Context(), serve.Config{
		DatabaseURL: storetest.DB(t), DataDir: filepath.Join(t.TempDir(), "data"), Listen: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := srv.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	token, err := srv.AdminToken(t.Context(), filepath.Join(t.TempDir(), "token"))
	if err != nil {
		t.Fatal(err)
	}
	api, err := client.New(srv.URL(), token, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for handedIn := false; ; {
		if !handedIn {
			_, err := api.RunCreate(ctx, gavelapi.NewRun{Language: "c", Source: "int main(void) { return 0; }"}, "")
			handedIn = err == nil // a standby says 503, and the client repeats it for a while
		}
		seen := scrape(t, srv.URL())
		_, waits := seen["gavel_queue_submissions"]
		if handedIn && waits {
			return seen
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("no run waits; what is shown is %v", seen)
		}
	}
}
