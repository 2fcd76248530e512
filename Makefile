# The ways in. Each target sets up what it needs; a second set-up takes about a second.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

CARGO ?= cargo
FENCEPOST := target/debug/fencepost
DEMO ?= workloads/single-vs-redlock.toml
SEEDS ?= 1

.PHONY: help setup images build demo test bench speed fuzz soak matrix fmt lint clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## packages, a Docker engine, Toxiproxy, the images
	@docker/setup.sh

images: ## build the images again, with the newest packages
	@docker/images.sh --force

build: ## set up and build, side by side
	@docker/setup.sh -- $(CARGO) build --workspace --locked

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

soak: build ## each promised outcome twenty times, on containers, without retries
	@scripts/soak.sh

matrix: build ## every fault on every topology, SEEDS times each; says first how long that takes
	@$(FENCEPOST) suite workloads/matrix --repeat $(SEEDS) --seed 1

fmt: ## format
	$(CARGO) fmt --all

lint: ## formatting and lints only
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

clean: ## remove what was built; images, engine and results stay
	$(CARGO) clean
