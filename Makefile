# `make` lists the commands.

# The service that `make demo` works on.
URL ?= http://127.0.0.1:8080

# The features that the tests build (for `browser` and `kafka`: theirs, unless this names more). CI builds all parts with the same ones.
FEATURES =
export FEATURES

.PHONY: help run test parts_of_test soak compatible clients browser kafka lint bench compare dist test-dist demo setup
.NOTPARALLEL:

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' Makefile

run: ## Get what is missing, build, and serve on http://127.0.0.1:8080 with a private Redis server
	@tools/setup run
	PATH="$$PATH:$(CURDIR)/.tools" cargo run --locked -- serve

# What depends on where keys are stored. These integration tests run a second time, with a cluster of three primaries as each world. Of what
# the names match, tests that start their own servers are left out. A script whose keys are in several slots fails in every test anyway
# (src/redis/dispatch.rs).
ON_CLUSTERS = model:: seasons:: queue:: seats:: turning:: periods:: shards:: resharding:: reservations:: faults:: \
	profiles::the_profiles_of_a_page names:: corrections:: revocations::
NOT_ON_CLUSTERS = intake:: console:: live::faults:: queue::faults:: queue::scripts::

# How many tests run at one time: more than there are processors, since many wait most of their time; with clusters even more of it.
TEST_THREADS = 8
CLUSTER_TEST_THREADS = 10

cargo_features = $(if $(FEATURES),--features $(FEATURES))

test: ## Get what is missing, run every test, say how long each part took
	@tools/timed 'make test' $(MAKE) --no-print-directory parts_of_test

# Without this the stack of the async runtime hides which test failed.
parts_of_test: export RUST_BACKTRACE = 0
parts_of_test: export PATH := $(CURDIR)/.tools:$(PATH)
parts_of_test: setup
	tools/timed '  build' cargo test --locked $(cargo_features) --no-run
	tools/timed '  tests with one server' cargo test --locked $(cargo_features) --lib --examples --test it -- --test-threads $(TEST_THREADS)
	STANDINGS_TEST_CLUSTER=1 tools/timed '  tests with clusters' cargo test --locked $(cargo_features) --test it -- \
		--test-threads $(CLUSTER_TEST_THREADS) $(ON_CLUSTERS) $(NOT_ON_CLUSTERS:%=--skip %)

# How many times as many random cases `make soak` plays, and the number that chooses them.
DEPTH = 10
SEED = $(shell date -u +%Y%m%d)
RANDOM_TESTS = check::the_check_reports_nothing flights:: kills:: model:: moderation::final_lines::no_revision moderation::hidden:: \
	moderation::reads:: moves:: queue::intake::random:: queue::scripts::the_index redefined:: seasons::

soak: setup ## Play the random tests at length, with one server and with clusters (DEPTH=10 times as long, SEED=… for other cases)
	STANDINGS_TEST_DEPTH=$(DEPTH) STANDINGS_TEST_SEED=$(SEED) PATH="$(CURDIR)/.tools:$$PATH" \
		cargo test --locked --test it -- --test-threads $(TEST_THREADS) $(RANDOM_TESTS)
	STANDINGS_TEST_DEPTH=$(DEPTH) STANDINGS_TEST_SEED=$(SEED) STANDINGS_TEST_CLUSTER=1 PATH="$(CURDIR)/.tools:$$PATH" \
		cargo test --locked --test it -- --test-threads $(TEST_THREADS) $(RANDOM_TESTS) --skip flights:: --skip kills:: --skip intake:: --skip queue::scripts::

# The document of the last release, and the test that compares it. Before the first release there is none.
RELEASED = target/released.json

compatible: ## Compare the interface with that of the last release, for changes that break its clients
	@tag=$$(git describe --tags --abbrev=0 --match 'v[0-9]*' 2>/dev/null) || { echo 'nothing is released yet'; exit 0; }; \
	mkdir -p $(dir $(RELEASED)) && git show "$$tag:openapi/openapi.json" > $(RELEASED) && \
	STANDINGS_RELEASED=$(CURDIR)/$(RELEASED) cargo test --locked $(cargo_features) --test it -- --ignored clients_of_the_last_release

clients: setup ## Run docs/clients.md and the programs of docs/backends.md and docs/games.md; needs Node.js, Python, Go, a JDK, Maven and Mono
	@PATH="$(CURDIR)/.tools:$$PATH" tools/clients

browser: setup ## Walk the pages in Chromium, and check them with axe (SCREENSHOTS=1: take the pictures of docs/console/); needs Node.js
	@PATH="$(CURDIR)/.tools:$$PATH" tools/browser

kafka: setup ## Test Kafka as the queue, with a broker that the tests start; needs Java and OpenSSL's headers
	@PATH="$(CURDIR)/.tools:$$PATH" tools/kafka

lint: ## Check the format, the lints and the documentation
	cargo fmt --check
	tools/timed '  lints' cargo clippy --locked $(cargo_features) --all-targets -- -D warnings
	$(if $(FEATURES),tools/timed '  lints without features' cargo clippy --locked --lib --bins --bench bench -- -D warnings)
	RUSTDOCFLAGS="-D warnings" tools/timed '  documentation' cargo doc --locked $(cargo_features) --no-deps

# The rows of Kafka need its client and a broker: `KAFKA=1`, or ARGS that name such a row.
bench: KAFKA ?= $(findstring kafka-,$(ARGS))
bench: ## Measure the service and its references, as BENCHMARKS.md says; takes forty-five minutes (ARGS=--quick: four minutes)
	@tools/setup bench
	$(if $(KAFKA),@tools/kafka setup)
	PATH="$(CURDIR)/.tools:$$PATH" cargo bench --locked --profile dist $(if $(KAFKA),--features kafka) --bench bench -- $(ARGS)

compare: ## Measure the service next to Podium, whose program you have: PODIUM=path; takes seven minutes (ARGS=--quick: one)
	@test -x "$(PODIUM)" || { echo 'compare: PODIUM=path has to name the program of Podium; BENCHMARKS.md says which'; exit 1; } >&2
	@tools/setup
	PATH="$(CURDIR)/.tools:$$PATH" cargo bench --locked --profile dist --bench bench -- --compare "$(abspath $(PODIUM))" $(ARGS)

# Outside of CI: it links the program as a release, which takes ten minutes, and gets the linker and Valkey from PyPI.
TARGET = x86_64-unknown-linux-gnu

dist: ## Make the archive of a release in dist/, for Linux with glibc 2.28 (TARGET=aarch64-unknown-linux-gnu for ARM)
	@tools/dist $(TARGET)

test-dist: ## Try the archive: which glibc it needs, and a session without any other program
	@tools/test-dist

demo: ## While `make run` runs in another shell: import a month of flights, show its top ten (URL=… for another service)
	@tools/demo $(URL)

setup: ## Install what `make run` and `make test` need and is missing
	@tools/setup
