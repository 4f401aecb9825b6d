# What people do here. The programs needed are Go, git and, for Postgres,
# nothing: it is found on the machine or fetched.

GO      ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null)
LDFLAGS := -X main.version=$(VERSION)
FUZZTIME ?= 5s
SOAK     ?= 600
RUNS     ?= 10000000
# The random histories: a failing one prints its seed and how to play it again.
HISTORIES = TestPeopleAndFaults|TestLanesThatTouch|TestResultsOfFailedChecks|TestWhoIsExpectedToFail|TestLanesAndLateMerges|Model|TestMainPasses|TestTheNumberOfRuns
CHAOS    ?= 10m
CHAOS_SEED ?= 0

# Releases are built with a Go whose standard library has no known findings.
RELEASE_GO ?= go1.27.3
HELM       ?= helm.sh/helm/v3/cmd/helm@v3.22.0

.PHONY: demo test stories faults race lint fuzz-short sim ablation soak chaos overload upgrade vulncheck mutants flaky-figures flaky-storage bench build release release-check chart-check deploy-check github-spec github-spec-check

demo: ## show the whole thing on this machine, until stopped
	$(GO) run -ldflags '$(LDFLAGS)' ./cmd/signalbox demo $(ARGS)

# A -timeout only ends what hangs: machines may be slow.

test: ## everything, with a Postgres of its own
	$(GO) test -parallel 4 -timeout 60m ./...

stories: ## every story of the queue on the whole service; make test plays one of each kind
	$(GO) test -parallel 4 -timeout 2h ./cmd/signalbox -run 'TestStories|TestEvents|TestManySub|TestAnHour' -all

faults: ## the whole table of faults on the host, eleven minutes; make test plays three rows of it
	$(GO) test -parallel 4 -timeout 2h ./cmd/signalbox -run TestFaults -all

race: ## everything once more, with the race detector
	$(GO) test -race -parallel 4 -timeout 2h ./...

lint: ## vet, formatting, staticcheck
	$(GO) vet ./...
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); \
	if [ -n "$$unformatted" ]; then echo "gofmt these:"; echo "$$unformatted"; exit 1; fi
	$(GO) tool staticcheck ./...

fuzz-short: ## each fuzz test for a few seconds
	GO='$(GO)' .ci/fuzz '$(FUZZTIME)'

# How much is played of each cell. With 2000 changes and 20 seeds intervals are narrow; that takes days.
SIM ?= --changes 500 --seeds 2

sim: ## the queue against other policies and an oracle in virtual time: every cell, and plots, into bin/sim; a night
	@mkdir -p bin
	$(GO) run ./cmd/signalbox simulate --cells grid $(SIM) --markdown --plots bin/sim > bin/sim.md

ablation: ## what each rule of an adaptive queue is worth: the goals' cells without each of them in turn
	queue/testdata/ablation/run.sh

soak: ## random histories of the queue with every invariant held, for SOAK seconds
	@$(GO) test -c -o bin/sim.test ./queue/sim && cd queue/sim && \
	end=$$(( $$(date +%s) + $(SOAK) )); pulls=0; out=$$(mktemp); trap 'rm -f "$$out"' EXIT; \
	while [ $$(date +%s) -lt $$end ]; do \
	  ../../bin/sim.test -test.run '$(HISTORIES)' -test.timeout 30m -rapid.checks=500 >"$$out" || { cat "$$out"; exit 1; }; \
	  pulls=$$(( pulls + $$(sed -n 's/^simulated pull requests: //p' "$$out") )); \
	done; echo "$$pulls simulated pull requests in random histories, and every invariant held"

chaos: ## three servers, Postgres and GitHub for CHAOS (10m) while everything breaks; Linux. The same CHAOS_SEED breaks the same things
	$(GO) test -count 1 -timeout 3h -v ./cmd/signalbox -run 'TestChaos$$' -chaos $(CHAOS) -chaos-seed $(CHAOS_SEED)

overload: ## 10,000 webhooks, 50 clients with 20 MiB each, slow connections and a long queue at once; make test does a little of it
	$(GO) test -count 1 -timeout 20m -v ./cmd/signalbox -run 'TestOverload$$' -overload

# The commit whose program is the older one: that before the newest migration.
FROM ?= $$(git log -1 --format=%h --diff-filter=A -- migrations/'*.sql')^

upgrade: ## the program of the commit FROM and this one work on one database, which is migrated under the older one
	@dir=$$(mktemp -d) && trap 'git worktree remove --force "$$dir/older"; rm -rf "$$dir"' EXIT && \
	git worktree add --quiet --detach "$$dir/older" "$(FROM)" && \
	(cd "$$dir/older" && CGO_ENABLED=0 $(GO) build -trimpath -o "$$dir/signalbox" ./cmd/signalbox) && \
	$(GO) test -count 1 -timeout 60m -v ./cmd/signalbox -run 'TestUpgrade$$' -older "$$dir/signalbox"

vulncheck: ## known vulnerabilities in what we call
	RELEASE_GO=$(RELEASE_GO) .ci/vulncheck

mutants: ## break each rule of package queue, and see the test that protects it fail
	queue/testdata/mutants/run.sh

github-spec: ## fetch what GitHub publishes about its API and webhooks, and cut it down for the tests
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && gitprovider/githubspec/testdata/fetch.sh "$$dir" && \
	$(GO) test ./gitprovider/githubspec -run TestTheFilesAreWhatIsPublished -published "$$dir" -rewrite && \
	$(GO) test ./webhook -run TestEveryPublishedExampleIsTaken -published "$$dir" -rewrite && \
	$(GO) test ./webhook -run TestPublishedExamplesMean -rewrite && git diff --stat

github-spec-check: ## the same, and see that nothing changes and that every published payload is taken
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && gitprovider/githubspec/testdata/fetch.sh "$$dir" && \
	$(GO) test ./gitprovider/githubspec -published "$$dir" && $(GO) test ./webhook -run Published -published "$$dir" && \
	$(GO) test ./gitprovider/githubsim -run TestTheSchemaIsACut -published "$$dir"

# The first of the simulated repositories; others have never been seen by the rules.
SEED ?= 1
flaky-figures: ## how well flaky tests are found, over many simulated repositories from SEED on
	$(GO) test ./flaky -run TestFindsFlakyTestsAndHidesNoBugs -v -timeout 30m -args -worlds 10 -seed $(SEED)

flaky-storage: ## what RUNS runs of tests take on disk, and what reading and adding to them takes
	$(GO) test ./db -run '^$$' -bench TestStorage -benchtime 1x -timeout 60m -v -args -runs $(RUNS)

# How long B15 sends webhooks; its goal is about an hour.
SOAK_WEBHOOKS ?= 1m
BENCH_TEST = SIGNALBOX_BENCH_TABLE='$(CURDIR)/bin/bench.txt' SIGNALBOX_BENCH_PLOTS='$(CURDIR)/bin' $(GO) test -count 1 -run '^$$' -timeout 90m

bench: ## the service against its goals, on an idle machine in a quarter of an hour; docs/benchmarks.md has results
	@mkdir -p bin && rm -f bin/bench.txt
	$(BENCH_TEST) -bench B8 -benchtime 1000x ./queue
	$(BENCH_TEST) -bench 'B[0-9]' -benchtime 1x ./db
	$(BENCH_TEST) -bench 'B[0-9]' -benchtime 1x ./rest
	$(BENCH_TEST) -bench Large -benchtime 1x ./gitprovider/mirror
	$(BENCH_TEST) -bench 'B[0-9]|Growth|Copies' -benchtime 1x ./cmd/signalbox -soak $(SOAK_WEBHOOKS)
	@echo '| id | measure | must | goal | result | beside the calibration of the same run | others | verdict |' && echo '|---|---|---|---|---|---|---|---|' && sort -V bin/bench.txt

build: ## bin/signalbox
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w $(LDFLAGS)' -o bin/signalbox ./cmd/signalbox

release: ## dist/: archives for linux and darwin on amd64 and arm64, and their checksums
	rm -rf dist
	GOTOOLCHAIN=$(RELEASE_GO) deploy/release.sh dist '$(VERSION)'

release-check: ## build for one platform twice, from two directories with nothing in common, and compare
	GOTOOLCHAIN=$(RELEASE_GO) deploy/release-check.sh linux/amd64

chart-check: ## the Helm chart, linted and rendered
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && GOBIN="$$dir" $(GO) install $(HELM) && \
	$(GO) test -timeout 60m ./cmd/signalbox -run TestTheChartRenders -helm "$$dir/helm"

deploy-check: chart-check ## that, the steps of the Dockerfile followed, and a release built twice
	$(GO) test -timeout 60m ./cmd/signalbox -run TestTheStepsOfTheDockerfile -image
	CACHE=shared deploy/release-check.sh linux/amd64
