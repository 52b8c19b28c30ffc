# Usher. `make help` lists the targets.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
GO ?= go
TOOL := $(GO) tool -modfile=$(CURDIR)/tools/go.mod
LINT := $(GO) tool -modfile=$(CURDIR)/tools/lint/go.mod golangci-lint
SUPPLY := $(GO) tool -modfile=$(CURDIR)/tools/supply/go.mod
RELEASE := $(GO) tool -modfile=$(CURDIR)/tools/release/go.mod goreleaser
# As releases are built, without C. Every build and test then shares what is compiled, that of the control
# plane included. Only the race detector needs C.
export CGO_ENABLED := 0
# go test with a line a package, then the output of the tests that failed and of no others. make lint vets
# all modules: go test would do that again, and for each dependency that it compiles.
GOTEST := $(TOOL) gotestsum --format pkgname --format-hide-empty-pkg --hide-summary skipped -- -vet=off
# Collecting garbage is a quarter of what tests and the compiler take. Servers that are tested or measured set
# the pace themselves, unless GOGC is set: not for them.
SELDOM := GOGC=300
FUZZTIME ?= 10m
HOSTILETIME ?= 10m
BENCHTIME ?= 500ms
ROUNDS ?= 10
SOAKTIME ?= 30m
AUDITED ?= 20000
# A profile for the compiler. With one it compiles all dependencies anew, for a tenth less CPU:
# only what is released or measured is worth it.
PGO ?= off
PROFILE := cmd/usher/usher.pgo
USHER := bin/usher
SAMPLES := bin/usher-samples
BENCH := bin/usher-bench
SANDBOX := bin/usher-sandbox
CONFORMANCE := bin/usher-conformance
# The CustomResourceDefinitions of reports, Apache License 2.0.
OPENREPORTS := github.com/openreports/reports-api@v0.2.1
# For make image.
PLATFORMS ?= linux/amd64
IMAGE ?= usher:dev
BUILDER ?= docker build
comma := ,
# For make conformance: a regular expression on the names of specs, and servers with commas.
FOCUS ?=
SERVER ?= usher,allow-all
# Without the plugins and settings that somebody may have for helm.
HELM := HELM_CACHE_HOME=$(CURDIR)/.cache/helm HELM_CONFIG_HOME=$(CURDIR)/.cache/helm HELM_DATA_HOME=$(CURDIR)/.cache/helm $(TOOL) helm

.DEFAULT_GOAL := help

# Namespaces with pods of the cluster itself, as in internal/trial/lockout/seeds.yaml. The example policies are for other ones.
SYSTEM_NAMESPACES := kube-system, pod-network, storage-drivers, cluster-dns, certificates

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: check
check: ## before each commit: format, linters on changed packages, unit tests, cases
	@MAKE='$(MAKE)' hack/steps.sh format-check lint-changed unit cases

.PHONY: hooks
hooks: ## install the pre-commit hook, which checks the format and changed packages
	@cp hack/hooks/pre-commit "$$(git rev-parse --git-path hooks)/pre-commit" && echo "installed: git commit runs hack/hooks/pre-commit"

.PHONY: run
run: build ## start the webhook with the example policies and decide the sample objects over HTTPS
	@hack/run.sh $(USHER)

.PHONY: build
build: ## build bin/usher
	@GO='$(GO)' hack/build.sh $(USHER) ./cmd/usher -pgo=$(PGO)

.PHONY: verify
verify: ## build bin/usher-verify, which verifies signatures of packs
	@cd cmd/usher-verify && GO='$(GO)' ../../hack/build.sh ../../bin/usher-verify . '-ldflags=-s -w'

.PHONY: samples
samples: ## build bin/usher-samples, the sample webhooks of Kubernetes
	@GO='$(GO)' hack/build.sh $(SAMPLES) ./cmd/usher-samples

.PHONY: $(BENCH)
$(BENCH):
	@cd bench && GO='$(GO)' ../hack/build.sh ../$(BENCH) .

.PHONY: image
image: ## build the image IMAGE for PLATFORMS (linux/amd64) with docker, or with what BUILDER says
	@for platform in $(subst $(comma), ,$(PLATFORMS)); do \
	  GOOS=$${platform%/*} GOARCH=$${platform#*/} $(GO) build -trimpath -pgo $(PGO) -ldflags='-s -w' \
	    -o bin/image/$$platform/usher ./cmd/usher; done
	$(BUILDER) --platform $(PLATFORMS) --tag $(IMAGE) --file Dockerfile bin/image

# What is released or measured is compiled with the profile.
image pgo bench bench-cluster bench-scale soak: PGO = $(PROFILE)

.PHONY: pgo
pgo: build $(BENCH) ## record the profile for profile-guided optimization of bin/usher
	$(BENCH) profile -usher $(USHER) -o $(PROFILE)

# The first one takes about six minutes on two cores.
.PHONY: $(SANDBOX)
$(SANDBOX):
	@cd sandbox && GO='$(GO)' ../hack/build.sh ../$(SANDBOX) ./cmd/usher-sandbox '-ldflags=-s -w'

.PHONY: sandbox
sandbox: build $(SANDBOX) ## run a Kubernetes control plane with Usher and the example policies until Ctrl-C
	@hack/sandbox.sh $(SANDBOX) $(USHER)

.PHONY: e2e
e2e: build $(SANDBOX) ## run tests against a real API server, with faults
	@cd sandbox && USHER_BIN=$(CURDIR)/$(USHER) USHER_SANDBOX_BIN=$(CURDIR)/$(SANDBOX) $(GOTEST) -timeout 30m -count=1 ./...

# The last release, and as long as there is none a commit without the newest kinds.
FROM ?= $(shell git describe --tags --abbrev=0 --match 'v*' 2>/dev/null || echo 5df9ed99)

.PHONY: upgrade-test
upgrade-test: build $(SANDBOX) ## upgrade two replicas from FROM (the last release) to this version on a real API server, under load, and go back
	@cd sandbox && USHER_BIN=$(CURDIR)/$(USHER) USHER_SANDBOX_BIN=$(CURDIR)/$(SANDBOX) $(GO) test -count=1 -timeout 30m -v -run 'TestUpgradeFrom$$' ./e2e -args -from $(FROM)

# As with the control plane, of which it compiles four hundred packages more.
.PHONY: $(CONFORMANCE)
$(CONFORMANCE):
	@cd conformance && GO='$(GO)' ../hack/build.sh ../$(CONFORMANCE) ./cmd/usher-conformance '-ldflags=-s -w'

.PHONY: conformance
conformance: samples $(SANDBOX) $(CONFORMANCE) ## run the Kubernetes conformance tests for webhooks against Usher, and against a server that must fail them
	@cd conformance && $(GOTEST) ./internal/...
	@$(CONFORMANCE) --samples-bin $(SAMPLES) --sandbox-bin $(SANDBOX) --server '$(SERVER)' --focus '$(FOCUS)'

# Kyverno's engine compiles a thousand packages more: its answers are recorded once, and neither linted nor run in CI.
.PHONY: kyverno-answers
kyverno-answers: ## record what Kyverno's own engine answers about the policies that imports are tested on
	@for d in corpus mutations; do (cd conformance/kyverno && $(GO) run . $(CURDIR)/internal/convert/kyverno/testdata/$$d) || exit 1; done

.PHONY: test
test: ## run everything that CI runs
	@MAKE='$(MAKE)' hack/steps.sh lint drift unit race alerts cases browser allocations soak-attack e2e conformance

.PHONY: alerts
alerts: ## check the alert rules and the dashboard with Prometheus' own parser and engine
	@cd tools/prometheus && $(GOTEST) ./...

.PHONY: unit
unit: export USHER_BIN = $(CURDIR)/$(USHER)
unit: build ## run unit tests of every package, and fuzz targets on their corpus
	@export USHER_BUILD="$$($(GO) tool buildid $(USHER))"; for module in . bench tools/supply tools/site cmd/usher-verify; do (cd $$module && $(SELDOM) $(GOTEST) ./...); done

# Where the race detector looks for packages in which goroutines meet.
RACE := . ./door/... ./fact/... ./live ./observe/... ./plugin ./source/... ./webhook ./internal/...
# Below internal, packages whose tests are long computations in one goroutine, which the detector makes last for minutes.
UNRACED := audit|compile|convert|door|explain|index|kind|lang|policytest|report|rule|samples|simulate|trial
# And tests elsewhere that are the same.
UNRACED_TESTS := TestFormatOf(Everything|HostileTexts)|TestHostileLogs|TestRulesMatchWhatPoliciesDo|TestTenantsChangeNothingForOthers

.PHONY: race
race: export CGO_ENABLED = 1
race: ## run the race detector on packages with concurrency
	@$(SELDOM) $(GOTEST) -race -skip '^($(UNRACED_TESTS))$$' $$(hack/concurrent.sh $(RACE) | grep -vE '^\./internal/($(UNRACED))(/|$$)')
	@$(SELDOM) $(GOTEST) -race -run Concurrent ./internal/lang/cue

.PHONY: cases
cases: build ## run the case files of the examples and of kinitiras, and check the example policies
	$(USHER) check --strict --webhook-namespace-selector='kubernetes.io/metadata.name notin ($(SYSTEM_NAMESPACES))' -f examples/cel/crds \
		examples/policies examples/cookbook examples/cel/policies examples/object-policies/policies
	$(USHER) check --strict examples/authorization/policies
	$(USHER) test docs/kinitiras/testdata internal/policytest/testdata/authz internal/policytest/testdata/kinitiras internal/policytest/testdata/semantics
	$(USHER) test --coverage --mutate examples/cases examples/cookbook examples/cel/cases examples/object-policies/cases examples/authorization/suite.yaml internal/policytest/testdata/authz/own.yaml
	@$(GOTEST) -run TestCases ./door/authorization ./internal/simulate/authz

# How many pods, and requests about pods, workloads and namespaces, are generated.
PODS ?= 100000
REQUESTS ?= 30000

.PHONY: pod-security
pod-security: build $(SANDBOX) ## compare the Pod Security Standards with Kubernetes, in process and on API servers, on ten times as many pods as CI, and mutate their policies
	@cd sandbox && $(GOTEST) -timeout 60m ./podsecurity -args -whole -pods $(PODS) -requests $(REQUESTS)
	@cd sandbox && USHER_BIN=$(CURDIR)/$(USHER) USHER_SANDBOX_BIN=$(CURDIR)/$(SANDBOX) $(GOTEST) -timeout 60m -run TestPodSecurity ./e2e -args -whole
	$(USHER) test --coverage --mutate library/pod-security-baseline/cases library/pod-security-restricted/cases library/pod-security-labels/cases

.PHONY: format-check
format-check:
	@unformatted=$$(gofmt -l $$(git ls-files --cached --others --exclude-standard '*.go' | xargs ls -d 2>/dev/null)); \
	  if [ -n "$$unformatted" ]; then echo "run gofmt -w on:"; echo "$$unformatted"; exit 1; fi

# All modules with Go code. The linter is built once for them.
export MODULES := . bench sandbox sandbox/bench conformance examples/apiserver tools/prometheus web/e2e tools/supply tools/site cmd/usher-verify

.PHONY: lint
lint: format-check ## run gofmt, golangci-lint on everything, and actionlint on the workflows
	@$(SUPPLY) actionlint
	@for module in $(MODULES); do (cd $$module && $(SELDOM) $(LINT) run ./...); done

.PHONY: lint-changed
lint-changed: ## run golangci-lint on the packages that differ from main
	@packages=$$(hack/changed.sh); if [ -n "$$packages" ]; then $(LINT) run $$packages; else echo "no package has changed"; fi

# It reads the list of known vulnerabilities from the internet, so it is not part of make test.
.PHONY: vulnerabilities
vulnerabilities: ## look for known vulnerabilities in what Usher calls, with govulncheck
	@$(SUPPLY) govulncheck ./...

.PHONY: release-dry-run
release-dry-run: ## build what a release contains, for this platform, without publishing
	@$(RELEASE) check
	@$(RELEASE) build --snapshot --clean --single-target
	@$(MAKE) --no-print-directory supply
	@cd tools/supply && $(GO) test -count=1 -timeout 60m -run TestPublishedModule . -args -install

.PHONY: supply
supply: ## pack the chart, and write OCI layouts of it and of the image, the krew manifest and the provenance of what is built in dist
	@$(HELM) package deploy/helm/usher --destination dist
	@cd tools/supply && $(GO) run . -root ../.. -chart dist/usher-$$(../../hack/version.sh).tgz -created $$(git show -s --format=%cI)

.PHONY: generate
generate: ## update generated code and manifests
	$(TOOL) controller-gen object:headerFile=hack/boilerplate.go.txt paths=./api/...
	$(TOOL) controller-gen crd paths=./api/... output:crd:dir=deploy/crds
	$(GO) run ./hack/trimcrds deploy/crds/*.yaml
	$(GO) test ./internal/lang/cel/apply -run TestBuiltinIsCurrent -update
	RECORD=1 $(GO) test ./library -run TestDocument
	rm -f deploy/helm/usher/crds/*.yaml
	cp deploy/crds/*.yaml deploy/helm/usher/crds/
	install -m 644 "$$($(GO) mod download -json $(OPENREPORTS) | sed -n 's/.*"Dir": "\(.*\)",/\1/p')"/config/crd/*.yaml deploy/helm/usher/openreports/
	{ echo '# Code generated by make generate. DO NOT EDIT.'; \
	  $(HELM) template usher deploy/helm/usher --namespace usher-system --set createNamespace=true \
	    --kube-version 1.36.0 --include-crds --no-hooks; } > deploy/manifests/usher.yaml
	{ echo '# Code generated by make generate. DO NOT EDIT.'; \
	  $(HELM) template usher deploy/helm/usher --namespace usher-system --set tenants.aggregateRoles=true \
	    --kube-version 1.36.0 --show-only templates/tenants.yaml; } > deploy/manifests/tenants.yaml

.PHONY: site
site: ## make the web site of the documents, bin/site, for any web server
	@rm -rf bin/site && cd tools/site && $(GO) run . -root ../.. -out ../../bin/site

.PHONY: browser
browser: build site ## test the page of usher console and the site in headless Chromium, which Debian's apt-get installs
	@hack/browser.sh $(USHER) $(GOTEST)

.PHONY: screenshots
screenshots: build ## write the pictures of usher console for its document
	@cd web/e2e && USHER_BIN=$(CURDIR)/$(USHER) SCREENSHOTS=$(CURDIR)/docs/images $(GO) test -count=1 -run TestDocument .

.PHONY: page
page: ## make the page of usher console, which is committed, from web/console, with npm
	@GO='$(GO)' hack/page.sh

.PHONY: library
library: ## run the mutants of all policies of the library; make test leaves out most of Pod Security
	USHER_LIBRARY=all $(GO) test -count=1 -timeout 30m ./library

.PHONY: imports
imports: ## import and check all policies on which the importer is compared with Kyverno's engine; make test takes every fourth
	USHER_CORPUS=all $(GO) test -count=1 -timeout 30m -run TestImportedCorpusPassesTheCheck ./cmd/usher

.PHONY: trial-objects
trial-objects: build bin/usher-sandbox ## record the sample objects that policies are tried on: with the defaults of an API server, and the kinds that it serves
	cd sandbox && $(GO) test -count=1 ./internal/defaulted -update
	cd sandbox && RECORD=1 USHER_BIN=$(CURDIR)/bin/usher USHER_SANDBOX_BIN=$(CURDIR)/bin/usher-sandbox $(GO) test -count=1 -run TestRecordedKinds ./e2e

.PHONY: lockout-requests
lockout-requests: bin/usher-sandbox ## record the requests that usher check --lockout sends: those of internal/trial/lockout/seeds.yaml as an API server sends them
	cd sandbox && RECORD=1 USHER_SANDBOX_BIN=$(CURDIR)/bin/usher-sandbox $(GO) test -count=1 -run TestRecordedLockout ./e2e

.PHONY: equality
equality: ## update docs/equality.md: what Usher is compared with, how many rows, and what differs
	@$(GO) test -count=1 ./docs -run TestEquality -update

.PHONY: references
references: ## update docs/reference: commands with their flags, fields of kinds, functions of CEL
	@RECORD=1 $(GO) test -count=1 ./cmd/usher -run 'TestReference$$'
	@$(GO) test -count=1 ./docs -run TestReferenceOf -update

.PHONY: drift
drift: ## fail if generated files, go.mod or go.sum are not up to date
	hack/drift.sh

.PHONY: hostile
hostile: ## try hostile CEL programs for HOSTILETIME (10m), and compare what calls take with what is estimated
	$(GO) test ./internal/lang/cel/hostile -run TestHostile -v -count=1 -timeout 24h -args -hostile $(HOSTILETIME)
	$(GO) test ./internal/lang/cel -run TestCalibrate -v -count=1 -timeout 24h -args -calibrate 1s

.PHONY: fuzz
fuzz: ## run each fuzz target for FUZZTIME (10m)
	hack/fuzz.sh $(FUZZTIME)

.PHONY: bench
bench: build $(BENCH) ## compare with minimal webhooks and with RBAC; BENCHTIME, ROUNDS and BENCHFLAGS make it short
	$(BENCH) -usher $(USHER) -benchtime $(BENCHTIME) -rounds $(ROUNDS) -o bench/results.md $(BENCHFLAGS)
	cd sandbox/bench && $(GO) test -run Same -bench . -benchtime $(BENCHTIME) .

PODS ?= 500

# Elapsed times and CPU of an API server mean something on an idle machine only.
.PHONY: bench-cluster
bench-cluster: build $(SANDBOX) ## measure the CPU that validating policies add to PODS (500) pods: of the API server, with Usher as webhook, as plugin
	cd sandbox && USHER_BIN=$(CURDIR)/$(USHER) USHER_SANDBOX_BIN=$(CURDIR)/$(SANDBOX) $(GO) test -count=1 -timeout 30m -v -run TestCost ./situations -args -cost $(PODS)

# The figures of docs/scale.md; CPU and memory mean something on an idle machine only.
.PHONY: bench-scale
bench-scale: build ## measure start, memory and CPU of a server as policies and requests grow
	hack/scale.sh $(USHER)

.PHONY: bench-audit
bench-audit: build $(SANDBOX) ## audit AUDITED (20000) pods by 100 policies on a real API server: time, CPU, memory, requests, admission meanwhile
	cd sandbox && USHER_BIN=$(CURDIR)/$(USHER) USHER_SANDBOX_BIN=$(CURDIR)/$(SANDBOX) $(GO) test -count=1 -timeout 30m -v -run TestAuditOfManyPods ./e2e -args -audited $(AUDITED) -admitting 200

.PHONY: bench-watch
bench-watch: build $(SANDBOX) ## ten subscribers follow 1,000 decisions a second: CPU, memory, latency, losses
	cd sandbox && USHER_BIN=$(CURDIR)/$(USHER) USHER_SANDBOX_BIN=$(CURDIR)/$(SANDBOX) $(GO) test -count=1 -timeout 30m -v -run 'TestWatch$$' ./e2e -args -deciding 1000 -deciding-for 30s

.PHONY: allocations
allocations: $(BENCH) ## fail if a decision allocates over 20 % more than recorded
	$(BENCH) gate -cpu=false

.PHONY: gate
gate: $(BENCH) ## fail if a decision takes over 20 % more time, relative to decoding the review, than recorded
	$(BENCH) gate

.PHONY: record
record: $(BENCH) ## record the cost of decisions, for the gate
	$(BENCH) gate -record

.PHONY: soak
soak: build ## run SOAKTIME (30m) at 80 % of the capacity of the server, while policies are edited
	hack/soak.sh $(USHER) $(SOAKTIME)

# Long enough for every attack; 30m by hand.
ATTACKTIME ?= 90s

.PHONY: soak-attack
soak-attack: build $(BENCH) ## run ATTACKTIME (90s) of attackers and 500 honest requests a second: none is lost, and memory is bounded
	$(BENCH) soak -usher $(USHER) -duration $(ATTACKTIME)

HOSTILEROUNDS ?= 10

.PHONY: bench-hostile
bench-hostile: build $(BENCH) ## run CUE with and without hostile CUE of attackers: nothing fails, and the p99 at most doubles; then on a server, HOSTILEROUNDS (10)
	$(GO) test ./internal/lang/cue -run '^$$' -bench HonestBesideHostile -benchtime 2000x
	$(BENCH) hostile -usher $(USHER) -rounds $(HOSTILEROUNDS) -most 0

.PHONY: microbench
microbench: ## run one benchmark per stage, with allocations
	$(GO) test -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) ./...
