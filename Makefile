# lj. `make help` lists the targets.
GO ?= go
BIN := bin/lj
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo v0.1.0-dev)
export CGO_ENABLED = 1
# A flag of the user's shell must not change what is built or skip tests.
export GOFLAGS =

.PHONY: help run build release test test-short race prove bench eval fuzz lint fmt generate tidy setup clean ci

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

setup: ## install what the build needs (as root), or say how
	@./scripts/setup.sh

run: build ## build lj and start it (the walk-through when no server answers)
	@if [ -t 0 ] && [ -t 1 ] && ./$(BIN) models >/dev/null 2>&1; then ./$(BIN); else ./$(BIN) demo; fi

build: setup ## build bin/lj
	$(GO) build -o $(BIN) ./cmd/lj

release: setup ## build dist/lj: stripped, libstdc++ linked in
	$(GO) build -ldflags '-s -w -X main.version=$(VERSION)' -o dist/lj ./cmd/lj

test: setup ## run all tests
	$(GO) vet ./...
	$(GO) test -timeout 15m ./...

race: setup ## run all tests with the race detector
	$(GO) test -race -timeout 20m ./...

prove: setup ## run the long campaigns in full
	LJ_TEST_PROVE=1 $(GO) test -timeout 120m -count=1 ./...

bench: build release ## run the benchmarks, each beside its baseline
	LJ_BENCH_LARGE=1 $(GO) test -run '^$$' -bench . -benchtime 20x -timeout 60m ./...

eval: setup ## print the retrieval and dedup figures for the data in LJ_DATA
	@$(GO) run ./cmd/internal/eval

fuzz: setup ## run each fuzz test for a short time
	@for p in $$($(GO) list ./...); do for f in $$($(GO) test -list '^Fuzz' $$p 2>/dev/null | grep '^Fuzz'); do \
		echo "$$p $$f"; $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime 20s $$p || exit 1; done; done

lint: ## run golangci-lint where it is installed
	golangci-lint run

fmt: ## format the Go files
	gofmt -w $$(git ls-files '*.go')

generate: ## make generated files again
	$(GO) generate ./...

tidy: ## tidy go.mod
	$(GO) mod tidy

clean: ## remove what was built
	rm -rf bin dist

ci: test ## what CI runs after the set-up
