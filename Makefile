# What a person or CI does with this tree. `make` alone lists it.

GO       ?= go
MODULE   := github.com/gavel-oj/gavel
VERSION  := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
COMMIT   := $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
LDFLAGS  := -X $(MODULE)/internal/buildinfo.Version=$(VERSION) -X $(MODULE)/internal/buildinfo.Commit=$(COMMIT)
PROGRAMS := $(patsubst cmd/%/main.go,%,$(wildcard cmd/*/main.go))

# Packages tested under the race detector: those with goroutines of their own. The others run without it, which is
# faster and, for tests that measure a program in the box, truer.
RACE := $(shell sed 's/\#.*//' scripts/race-packages)

.DEFAULT_GOAL := help
.PHONY: help build up demo test check bench bench-box generate fmt lint vuln deps clean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# ARGS go on to gavel up: make up ARGS='--samples --slots 2'.
up: deps build ## install what is missing, build, start everything and judge the examples; stays up until Ctrl-C; ARGS are those of gavel up
	@scripts/up $(ARGS)

demo: deps build ## the same in a temporary folder, and exit: 0 when every verdict is as declared
	@scripts/demo $(ARGS)

# Static programs: the box runs gavel-worker again inside a root without the host's libraries.
build: ## build bin/gavel and bin/gavel-worker
	@scripts/deps build
	@echo "building $(PROGRAMS) (the first time Go fetches and compiles every library: some minutes)"
	CGO_ENABLED=0 $(GO) build -ldflags '$(LDFLAGS)' -o bin/ $(addprefix ./cmd/,$(PROGRAMS))

deps: ## install what gavel needs from the system, if it is missing (GAVEL_NO_INSTALL=1 forbids)
	@scripts/deps run

test: ## run every test and say how many were skipped and why; `make test ARGS='-run Lease'` narrows it
	@scripts/deps test
	@for f in *.c *.cc *.cpp *.cxx *.h; do [ ! -e "$$f" ] || { \
		echo "$$f: Go takes it for a part of the package in this folder, and nothing can be tested; move it to tmp/" >&2; exit 2; }; done
	@$(GO) build -o .cache/testsum ./scripts/testsum # not go run, which adds a last line of its own
	@.cache/testsum -race '$(RACE)' -- -timeout 30m $(ARGS)

check: ## generated files, format, vet, lint, layers, scripts, vulnerabilities: what a change must pass besides the tests
	@scripts/check

bench: ## run the benchmarks and print each as a ratio to its base
	@scripts/deps test
	@$(GO) run ./scripts/benchratio $(ARGS)

bench-box: ## print what a box costs beside posix_spawn and bubblewrap, and how exact its figures and limits are
	@scripts/deps bench
	@$(GO) run ./scripts/benchratio -bench 'ReturnZero|CPUTime|Memory|Overshoot|Hundred|Talk|FirstVerdict' $(ARGS) ./internal/sandbox/linuxbox ./internal/judge

generate: ## write the generated files anew (SQL, OpenAPI)
	@scripts/generate

fmt: ## format the Go files
	@"$$(scripts/tool gofumpt)" -w .

lint: ## run the linters alone
	@"$$(scripts/tool golangci-lint)" run

vuln: ## look for known vulnerabilities in what is linked (needs the database on the internet)
	@"$$(scripts/tool govulncheck)" ./...

clean: ## remove what was built; .data (the data of `make up`) and .cache (tools) stay
	rm -rf bin dist tmp
