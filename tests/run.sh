#!/usr/bin/env bash
# Installs what is missing, then checks and tests everything. With --quick: nothing that needs Java.
#
# Each step says its name first; the run ends at the first step that fails.
set -euo pipefail
cd "$(dirname "$0")/.."

main() {
    local quick=
    case "${1:-}" in
    --quick) quick=yes ;;
    "") ;;
    *)
        echo "usage: tests/run.sh [--quick]" >&2
        exit 2
        ;;
    esac

    [ -n "$quick" ] || step tests/setup.sh
    step cargo fmt --check
    step cargo clippy --quiet --all-targets --all-features -- -D warnings
    step cargo clippy --quiet --all-targets --no-default-features -- -D warnings
    RUSTDOCFLAGS="-D warnings" step cargo doc --quiet --no-deps --all-features --document-private-items
    if [ -n "$quick" ]; then
        step cargo test
        return
    fi
    step cargo test --features real-brokers --lib --bins --test integration
    step cargo test --features real-brokers --doc
    step tests/readme.sh
    # Two at a time: each of them runs several JVMs.
    step cargo test --features real-brokers --test real -- --test-threads=2
}

step() {
    echo "=== $*"
    "$@"
}

main "$@"
