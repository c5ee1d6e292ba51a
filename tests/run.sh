#!/usr/bin/env bash
# Installs what is missing, then checks and tests everything. With --quick: nothing that needs Java. With
# --all-brokers: the tests on brokers of every later line that registers in ZooKeeper, too.
#
# Each step says its name first; the run ends at the first step that fails.
set -euo pipefail
cd "$(dirname "$0")/.."
# Longer than plain `cargo test` takes for the random run.
export KZC_RANDOM_SECONDS=${KZC_RANDOM_SECONDS:-60}

main() {
    local quick= all_brokers=
    case "${1:-}" in
    --quick) quick=yes ;;
    --all-brokers) all_brokers=--all-brokers ;;
    "") ;;
    *)
        echo "usage: tests/run.sh [--quick | --all-brokers]" >&2
        exit 2
        ;;
    esac

    [ -n "$quick" ] || step tests/setup.sh $all_brokers
    step cargo fmt --check
    step cargo clippy --quiet --all-targets --all-features -- -D warnings
    step cargo clippy --quiet --all-targets --no-default-features -- -D warnings
    RUSTDOCFLAGS="-D warnings" step cargo doc --quiet --no-deps --all-features --document-private-items
    if [ -n "$quick" ]; then
        step cargo test
        return
    fi
    step cargo test --features real-brokers --lib --bins
    # More than there are processors: most of them wait most of the time.
    step cargo test --features real-brokers --test integration -- --test-threads=4
    step cargo test --features real-brokers --doc
    step tests/readme.sh
    # Two at a time: each of them runs several JVMs.
    step cargo test --features real-brokers --test real -- --test-threads=2
    [ -z "$all_brokers" ] || later_brokers
}

# The tests of the brokers that setup.sh has found; one that is gone since fails its tests.
later_brokers() {
    local name version skipped=() not_there=${KZC_COMPONENTS:-target/real-components}/brokers-not-there
    while read -r version; do
        name=${version//./_}
        skipped+=(--skip "::on_${name}::" --skip "ours_on_$name" --skip "::members_of_${name}_")
        skipped+=(--skip "::filters_of_${name}_" --skip brokers_upgraded)
    done <"$not_there"
    step cargo test --features real-brokers --test real -- --ignored --test-threads=2 "${skipped[@]}" \
        every_broker:: mixed_filters:: mixed_groups:: mixed_round_robin:: upgrades::
    while read -r version; do
        echo "=== not run: the tests on Kafka $version, which tests/setup.sh could not fetch"
    done <"$not_there"
}

step() {
    echo "=== $*"
    "$@"
}

main "$@"
