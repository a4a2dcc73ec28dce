package httpapi

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/clock"
)

// resultShare is how much larger a result may be than other calls.
const resultShare = 4

// Default limits. Bodies are bounded per route, by these unless the operator
// says otherwise.
const (
	MaxJSONBytes          = 4 << 20
	MaxResultBytes        = resultShare * MaxJSONBytes
	DefaultMaxUploadBytes = 1 << 30
)

// Times that bound what one connection can hold.
const (
	// MaxWait is the longest that a read with ?wait= is held.
	MaxWait = 25 * time.Second
	// readHeaderTimeout bounds a client that never finishes its header.
	readHeaderTimeout = 10 * time.Second
	// bodyStall is the longest pause within a body, and the longest that one
	// write of an answer may take.
	bodyStall = 20 * time.Second
	// drainTime bounds reading on in a body that nobody wants any more.
	drainTime = 2 * time.Second
	// jsonBodyTime bounds a whole JSON body, uploadTime a whole upload.
	jsonBodyTime = 2 * time.Minute
	uploadTime   = time.Hour
	idleTimeout  = 2 * time.Minute
	readyTimeout = 3 * time.Second
)

// Config is what New needs. Service and Logger are required.
type Config struct {
	Service Service
	Logger  *slog.Logger
	Build   gavelapi.Version
	// Metrics receives the API's own metrics and is what /metrics shows; the
	// arbiter registers its own there too. Nil makes a new one.
	Metrics *prometheus.Registry
	// MaxUploadBytes bounds a problem upload; 0 means DefaultMaxUploadBytes.
	MaxUploadBytes int64
	// MaxBodyBytes bounds the body of every other call; results, which have a
	// row for each test, may be four times that. 0 means MaxJSONBytes.
	MaxBodyBytes int64
	// TempDir receives uploads, unlinked at once; empty means the system's.
	TempDir string
	// Clock is for durations and deadlines; nil means the system's.
	Clock clock.Clock
}

type server struct {
	Config
	mux     *http.ServeMux
	api     huma.API
	metrics *httpMetrics
}

// New builds the whole HTTP interface. It panics on a missing Service or
// Logger and on a document that cannot be built: programmer's mistakes.
func New(cfg Config) http.Handler {
	s := newServer(cfg)
	return s.outermost(http.HandlerFunc(s.dispatch))
}

func newServer(cfg Config) *server {
	if cfg.Service == nil || cfg.Logger == nil {
		panic("httpapi: Config needs a Service and a Logger")
	}
	if cfg.Metrics == nil {
		cfg.Metrics = prometheus.NewRegistry()
	}
	if cfg.MaxUploadBytes <= 0 {
		cfg.MaxUploadBytes = DefaultMaxUploadBytes
	}
	if cfg.MaxBodyBytes <= 0 {
		cfg.MaxBodyBytes = MaxJSONBytes
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.System{}
	}
	if cfg.Build.Protocol == 0 {
		cfg.Build.Protocol = gavelapi.ProtocolVersion
	}
	s := &server{Config: cfg, mux: http.NewServeMux(), metrics: newHTTPMetrics(cfg.Metrics)}
	installErrors()
	s.api = humago.New(s.mux, humaConfig())
	s.workerRoutes()
	s.submissionRoutes()
	s.runRoutes()
	s.rejudgeRoutes()
	s.operatorRoutes()
	s.problemRoutes()
	s.fleetRoutes()
	s.healthRoutes()
	s.alarmRoutes()
	s.webhookRoutes()
	s.plainRoutes()
	return s
}

// NewServer wraps a handler of New in an http.Server with the bounds that
// belong to it. There is no WriteTimeout and no ReadTimeout: either would cut
// long-polls and downloads. Instead each body read and each write has its own
// deadline (see body.go).
func NewServer(h http.Handler, logger *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: readHeaderTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
	}
}

// humaConfig is huma without what it does uninvited: no documentation page
// (it loads scripts from elsewhere), no $schema links, no document routes (we
// serve one, built once), and unknown fields are ignored.
func humaConfig() huma.Config {
	c := huma.DefaultConfig("gavel", "1")
	c.Info.Description = "Submissions in, verdicts out. Errors are application/problem+json (RFC 9457); " +
		"their type is a page that this server serves. Unknown fields are ignored by both sides."
	c.CreateHooks = nil
	c.OpenAPIPath, c.DocsPath, c.SchemasPath = "", "", ""
	c.Formats = map[string]huma.Format{"application/json": jsonFormat, "json": jsonFormat}
	c.AllowAdditionalPropertiesByDefault = true
	c.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"admin":  {Type: "http", Scheme: "bearer", BearerFormat: "gvl_a_…", Description: "an administrator's token"},
		"site":   {Type: "http", Scheme: "bearer", BearerFormat: "gvl_u_…", Description: "a site's token"},
		"worker": {Type: "http", Scheme: "bearer", BearerFormat: "gvl_w_…", Description: "a worker's token, from enrolling"},
	}
	return c
}
