# The ways in. Each target sets up what it needs; a second set-up takes about a second.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

CARGO ?= cargo
FENCEPOST := target/debug/fencepost
DEMO ?= workloads/single-vs-redlock.toml
SEEDS ?= 1
EPISODES ?= 20
EXPOSURE ?= per-cluster
COMPARED ?= $(wildcard workloads/compare/*.toml)

.PHONY: help setup images build demo test bench speed fuzz soak matrix threshold comparison results libraries picture reports predict fmt lint clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## packages, a Docker engine, Toxiproxy, the images
	@docker/setup.sh

images: ## build the images again, with the newest packages
	@docker/images.sh --force

build: ## set up and build, side by side
	@docker/setup.sh -- $(CARGO) build --workspace --locked

ifeq ($(DEMO),workloads/single-vs-redlock.toml)
demo: export FENCEPOST_IMAGES = fencepost/redis:7 fencepost/toxiproxy:2.12
endif
demo: build ## one Redis against Redlock under the same faults
	@$(FENCEPOST) run $(DEMO)

test: ## set up; formatting, lints, all tests, those on containers too
	@docker/setup.sh -- $(CARGO) build --workspace --all-targets --locked
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	scripts/test.sh

bench: build ## lock cycles a second through Toxiproxy, against redis-benchmark on the same path
	@scripts/bench.sh

speed: ## the checker alone, beside Porcupine on the same history
	$(CARGO) run --locked -p fencepost-checker --example speed

fuzz: ## the checker's readers against libFuzzer, ten minutes each format
	@scripts/fuzz.sh

threshold: build ## how far a server's clock must step for Redlock to break, against the formula (2 minutes)
	@mkdir -p results
	FENCEPOST_THRESHOLD=$(CURDIR)/results/threshold.md $(CARGO) test --locked --test clock_threshold -- --nocapture

soak: build ## each promised outcome twenty times, on containers, without retries
	@scripts/soak.sh

matrix: build ## every fault on every topology, SEEDS times each (40 minutes each; says first how long)
	@$(FENCEPOST) suite workloads/matrix --repeat $(SEEDS) --seed 1 --results results/matrix

comparison: build ## each file of workloads/compare/, EPISODES=20 times each system, with A/A beside: an hour; EXPOSURE=both twice that
	@for file in $(COMPARED); do \
	  $(FENCEPOST) compare $$file --episodes $(EPISODES) --seed 1 --aa --exposure $(EXPOSURE) --results results/compare; done

results: build ## docs/results.md, from what `make comparison`, `make matrix` and `make threshold` left behind
	@mkdir -p docs
	@{ cat docs/results.head.md; $(FENCEPOST) merge results/compare results/matrix --markdown --unknown warn; \
	   echo; cat results/threshold.md; } > docs/results.md.new
	@mv docs/results.md.new docs/results.md

libraries: build ## docs/libraries.md: the scorecard of every library that `adapters/setup` could install (ten minutes)
	@$(FENCEPOST) scorecard --markdown > docs/libraries.md.new || [ $$? -le 2 ]
	@mv docs/libraries.md.new docs/libraries.md

reports: build ## bugs of published lock libraries, as reported: bad versions are caught, good ones pass
	@$(FENCEPOST) suite workloads/reports --repeat $(SEEDS) --results results/reports

picture: build ## docs/double-hold.svg, the picture in the README, from a run of plain-del
	@$(FENCEPOST) run workloads/plain-del.toml --seed 7 --backend local --results results/picture
	@$(FENCEPOST) report --picture docs/double-hold.svg --of ownership results/picture/plain-del/latest

predict: build ## `predict` against experiments on a grid of leases, work times and pauses; about six minutes
	@FENCEPOST_GRID=1 $(CARGO) test --locked --test predict -- --nocapture

fmt: ## format
	$(CARGO) fmt --all

lint: ## formatting and lints only
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

clean: ## remove what was built; images, engine and results stay
	$(CARGO) clean
