# Two commands are all a newcomer needs: `make up` and `make test`. Each installs what it lacks.
SHELL := /bin/bash
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

CARGO ?= cargo
# Where cargo puts what it builds, from the root of the repository or from below it.
BUILT := $(abspath $(or $(CARGO_TARGET_DIR),target))
export ORRERY_CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/orrery

.PHONY: help up ui test test-browser test-long faults test-kubernetes bench lint format licences tools

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

tools: ## Install what building and testing need (Debian packages)
	@scripts/tools build test

up: ui ## Build and run the plane on this machine, with a demo agent (UP="--api-port 0 …" for other options)
	@scripts/tools build
	$(CARGO) build --release --locked --package orrery
	ORRERY_OPENCODE="$$(scripts/opencode)" $(BUILT)/release/orrery up --demo $(UP)

ui: ui/dist/index.html ## Build the web UI

# Not `npm ci`: it refuses a lock file in which npm left out the binaries of other platforms, as it does.
ui/node_modules/.package-lock.json: ui/package-lock.json
	cd ui && npm install --no-save --no-audit --no-fund --silent

ui/dist/index.html: ui/node_modules/.package-lock.json ui/index.html ui/vite.config.ts ui/tsconfig.json $(shell find ui/src ui/public -type f)
	cd ui && npm run --silent build

test: ui ## Run every test that needs neither Go nor a cluster
	@scripts/tools build test
	cd ui && npm test --silent
	$(CARGO) test --workspace --locked
	CARGO="$(CARGO)" scripts/faults
	@$(MAKE) --no-print-directory test-browser

test-browser: ui ## Every page and action in a real Chromium, and made-up requests, against a real plane
	@scripts/tools build browser
	$(CARGO) build --locked --package orrery
	cd ui && ORRERY="$(BUILT)/debug/orrery" ORRERY_OPENCODE="$$(../scripts/opencode)" SCHEMATHESIS="$$(../scripts/schemathesis)" npm run --silent e2e

test-long: export ORRERY_TEST_LONG = 1
test-long: ui ## The same with every kill round, every fault seed, and a log and a terminal left open for half an hour
	@scripts/tools build test
	$(CARGO) test --workspace --locked
	@$(MAKE) --no-print-directory test-browser

faults: ## Run the fault harness, thousands of runs, and write the numbers into docs/faults.md
	@scripts/tools build test
	CARGO="$(CARGO)" scripts/faults docs/faults.md

test-kubernetes: ## Judge the embedded API by a real kube-apiserver (needs Go or KUBEBUILDER_ASSETS)
	@scripts/tools build test
	KUBEBUILDER_ASSETS="$$(scripts/kubernetes-binaries)" $(CARGO) test --locked --package orrery-apiserver --features differential --test differential
	KUBEBUILDER_ASSETS="$$(scripts/kubernetes-binaries)" $(CARGO) test --locked --package orrery-workloads --features differential --test differential
	KUBECTL="$$(scripts/kubernetes-binaries)/kubectl" $(CARGO) test --locked --package orrery --test it kubectl
	PROMPTARENA="$$(scripts/promptarena)" $(CARGO) test --locked --package orrery --test it deploy -- --include-ignored
	KUBEBUILDER_ASSETS="$$(scripts/kubernetes-binaries)" $(CARGO) test --locked --package orrery-server --features differential --test differential
	HELM="$$(scripts/helm)" PROMPTARENA="$$(scripts/promptarena)" KUBEBUILDER_ASSETS="$$(scripts/kubernetes-binaries)" $(CARGO) test --locked --package orrery --features cluster --test cluster

bench: ui ## Measure, side by side with kube-apiserver where it is there; writes docs/benchmarks.md
	@scripts/tools build browser
	$(CARGO) build --release --locked --package orrery --package orrery-bench
	KUBEBUILDER_ASSETS="$$(scripts/kubernetes-binaries)" $(BUILT)/release/orrery-bench

lint: ## Format and lint, no warning allowed
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --all-features --locked -- -D warnings

format: ## Format everything
	$(CARGO) fmt --all

licences: ## Check licences, sources and banned crates of every dependency
	@scripts/cargo-deny check --hide-inclusion-graph bans licenses sources
