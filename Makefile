# Usher. `make help` lists the targets.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
GO ?= go
TOOL := $(GO) tool -modfile=tools/go.mod
FUZZTIME ?= 10m
BENCHTIME ?= 1s
USHER := bin/usher

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: run
run: build ## start the webhook on the example policies and decide the sample objects over HTTPS
	@hack/run.sh $(USHER)

.PHONY: build
build: ## build bin/usher
	@$(GO) build -trimpath -o $(USHER) ./cmd/usher

.PHONY: test
test: lint drift unit race cases ## everything that CI runs

.PHONY: unit
unit: ## unit tests of every package, fuzz targets on their corpus
	$(GO) test ./...

# The packages in which goroutines meet.
RACE := . ./engine ./live ./fact/... ./lang/cue ./door/... ./observe/... ./source/... ./internal/...

.PHONY: race
race: ## the race detector on the packages with concurrency
	$(GO) test -race $(RACE)

.PHONY: cases
cases: build ## the case files of the examples and of the original's behaviour, and the example policies
	$(USHER) check --strict examples/policies
	$(USHER) test examples/cases policytest/testdata/kinitiras

.PHONY: lint
lint: ## gofmt, go vet, staticcheck
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$unformatted" ]; then echo "run gofmt -w on:"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...
	$(TOOL) staticcheck ./...

.PHONY: generate
generate: ## write generated code and manifests anew
	$(TOOL) controller-gen object:headerFile=hack/boilerplate.go.txt paths=./api/...
	$(TOOL) controller-gen crd:maxDescLen=160 paths=./api/... output:crd:dir=deploy/crds

.PHONY: drift
drift: ## fail if generated files, go.mod or go.sum are not up to date
	hack/drift.sh

.PHONY: fuzz
fuzz: ## each fuzz target for FUZZTIME (10m)
	hack/fuzz.sh $(FUZZTIME)

.PHONY: bench
bench: ## one benchmark a stage, with allocations
	$(GO) test -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) ./...
