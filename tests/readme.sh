#!/usr/bin/env bash
# Runs the examples of README.md (or of the file named) against a real cluster that lives as long as they run.
#
# An example is a block fenced as ```sh right after a line <!-- smoke -->.
# All of them run in order in one shell that stops at the first failure, in the top folder, with
#   ZOOKEEPER  the connect string of the cluster
#   BROKERS    its broker list
#   kzc        on the PATH
# The cluster (Kafka 0.8.2.2) has a topic "demo" of 4 partitions with 25 messages each: message-0-0, message-0-1 ...
set -euo pipefail
cd "$(dirname "$0")/.."

readme=${1:-README.md}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# A message that names the line comes before each example, so that a failure can be found.
awk '
    inside && /^```[ \t]*$/ { inside = 0; next }
    inside                  { print; next }
    marked && /^```sh[ \t]*$/ {
        inside = 1; marked = 0; count++
        printf "echo \"--- %s:%d\"\n", FILENAME, FNR + 1
        next
    }
    NF                      { marked = ($0 ~ /^<!-- smoke -->[ \t]*$/) }
    END                     { if (inside || !count) exit 1 }
' "$readme" >"$work/examples.sh" || {
    echo "$readme has no complete example marked with <!-- smoke -->" >&2
    exit 1
}

cargo build --quiet --bin kzc
PATH="${CARGO_TARGET_DIR:-$PWD/target}/debug:$PATH" KZC_SCRIPT="$work/examples.sh" \
    cargo test --quiet --features real-brokers --test real -- \
    --ignored --exact --nocapture readme::every_smoke_example_succeeds_against_a_real_cluster
