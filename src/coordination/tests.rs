//! The registries against the embedded ZooKeeper server and against real ones.

use std::sync::Arc;
use std::sync::Weak;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use crossbeam_channel::Receiver;
use parking_lot::Mutex;

use crate::cluster::TopicPartition;
use crate::coordination::broker_registry::BrokerRegistry;
use crate::coordination::consumer_id::ConsumerThreadId;
use crate::coordination::group_registry::Claim;
use crate::coordination::group_registry::GroupRegistry;
use crate::coordination::group_registry::OwnedOffset;
use crate::coordination::group_registry::Owner;
use crate::coordination::group_registry::SeenNode;
use crate::coordination::topic_count::TopicCount;
use crate::coordination::topic_registry::TopicRegistry;
use crate::error::Error;
use crate::support::ZooKeeperShell;
use crate::test_zookeeper::ServerKind;
use crate::test_zookeeper::TestZooKeeper;
use crate::test_zookeeper::scenarios;
use crate::thread::Stopper;
use crate::zk::ZkClient;
use crate::zk::ZkConfig;
use crate::zk::ZkEvent;

const LIMIT: Duration = Duration::from_secs(20);

scenarios! {
    std::convert::identity;
    a_member_is_registered_until_its_session_ends,
    a_member_can_be_unregistered_by_its_own_session_only,
    a_registration_outwaits_the_session_of_a_crash,
    a_member_id_of_a_live_session_is_taken,
    a_stop_ends_the_wait_for_a_member_id,
    members_are_in_order_and_a_bad_registration_stops_nobody,
    an_event_tells_that_a_member_came,
    a_free_partition_is_claimed_and_a_second_claim_finds_it_ours,
    a_partition_of_another_thread_of_ours_is_claimed,
    a_partition_of_another_session_is_in_conflict_even_with_equal_text,
    a_release_deletes_only_what_is_ours,
    a_stored_offset_is_a_bare_number,
    an_owner_writes_over_what_it_has_seen_and_who_lost_the_partition_over_nothing,
    an_owner_writes_over_what_somebody_else_has_stored_or_deleted,
    a_thousand_partitions_are_claimed_stored_read_and_released,
    a_group_can_be_deleted_whole,
    live_brokers_are_listed_whether_they_can_be_used_or_not,
    partitions_of_topics_are_read_and_changes_told,
    a_missing_chroot_is_an_error_and_is_not_created,
}

/// A chroot of its own on a server that the tests share, a client, and somebody else.
struct Fixture {
    zk: Arc<ZkClient>,
    events: Receiver<ZkEvent>,
    other: ZooKeeperShell,
    connect: String,
    server: Shared,
}

impl Fixture {
    fn new(kind: ServerKind) -> Self {
        Self::with_session(kind, Duration::from_secs(10))
    }

    fn with_session(kind: ServerKind, session_timeout: Duration) -> Self {
        static CHROOTS: AtomicUsize = AtomicUsize::new(0);
        let server = shared_server(kind);
        let chroot = format!("/test-{}", CHROOTS.fetch_add(1, Ordering::Relaxed));
        let root = ZooKeeperShell::connect(&server.connect_string());
        root.put(&chroot, "").unwrap();
        let connect = format!("{}{chroot}", server.connect_string());
        let config = ZkConfig {
            connect: connect.clone(),
            session_timeout,
            connection_timeout: LIMIT,
        };
        let (zk, events) = ZkClient::connect(config).unwrap();
        Self {
            zk,
            events,
            other: ZooKeeperShell::connect(&connect),
            connect,
            server,
        }
    }

    fn group(&self) -> GroupRegistry {
        GroupRegistry::new(Arc::clone(&self.zk), "g")
    }

    fn ours(&self, path: &str) -> bool {
        let owner = self.other.stat(path).unwrap().ephemeral_owner;
        owner.is_some() && owner == self.zk.session_id()
    }

    #[track_caller]
    fn expect_event(&self, expected: ZkEvent) {
        assert_eq!(self.events.recv_timeout(LIMIT).unwrap(), expected);
    }
}

type Shared = Arc<Box<dyn TestZooKeeper>>;

fn shared_server(kind: ServerKind) -> Shared {
    type Running = (ServerKind, Weak<Box<dyn TestZooKeeper>>);
    static SERVERS: Mutex<Vec<Running>> = Mutex::new(Vec::new());
    let mut servers = SERVERS.lock();
    servers.retain(|(_, server)| server.strong_count() > 0);
    let running = servers.iter().find(|(running, _)| *running == kind);
    if let Some(server) = running.and_then(|(_, server)| server.upgrade()) {
        return server;
    }
    let server = Arc::new(kind.start());
    servers.push((kind, Arc::downgrade(&server)));
    server
}

fn partition(number: i32) -> TopicPartition {
    TopicPartition::new("t", number)
}

fn claim_of(number: i32, thread: usize) -> (TopicPartition, ConsumerThreadId) {
    (partition(number), ConsumerThreadId::new("g_m", thread))
}

fn a_member_is_registered_until_its_session_ends(kind: ServerKind) {
    let fixture = Fixture::new(kind);
    let group = fixture.group();
    let stopper = Stopper::new();
    let stop = stopper.signal();
    let path = "/consumers/g/ids/g_m";
    let [one, two] =
        [1, 2].map(|streams| TopicCount::fixed([(String::from("t"), streams)]).unwrap());
    assert!(!group.is_registered("g_m", &one).unwrap());
    group.register("g_m", &one.registration(0), &stop).unwrap();
    assert!(group.is_registered("g_m", &one).unwrap());
    assert!(fixture.ours(path));
    assert_eq!(fixture.other.get(path).unwrap(), one.registration(0));

    group.register("g_m", &one.registration(0), &stop).unwrap();
    assert!(
        !group.is_registered("g_m", &two).unwrap(),
        "what an earlier try of ours asked for"
    );
    group.register("g_m", &two.registration(0), &stop).unwrap();
    assert!(group.is_registered("g_m", &two).unwrap());
    assert_eq!(
        fixture.other.get(path).unwrap(),
        two.registration(0),
        "differing data of ours is rewritten"
    );

    fixture.zk.close();
    assert!(!fixture.other.exists(path));
}

fn a_member_can_be_unregistered_by_its_own_session_only(kind: ServerKind) {
    let fixture = Fixture::new(kind);
    let group = fixture.group();
    let stopper = Stopper::new();
    let stop = stopper.signal();
    group.register("g_m", "x", &stop).unwrap();
    group.unregister("g_m").unwrap();
    group.unregister("g_m").unwrap();
    let path = "/consumers/g/ids/g_m";
    assert!(!fixture.other.exists(path));
    fixture.other.create_ephemeral(path, "x").unwrap();
    group.unregister("g_m").unwrap();
    assert!(fixture.other.exists(path));
}

/// Kafka 0.8.2.2 takes what its own dead session left for its registration if the text is equal,
/// and then is no member once the session expires (D16); else it waits for ever (D15).
fn a_registration_outwaits_the_session_of_a_crash(kind: ServerKind) {
    let fixture = Fixture::new(kind);
    let group = fixture.group();
    fixture.other.put("/consumers/g/ids", "").unwrap();
    let crashed = ZooKeeperShell::try_connect(&fixture.connect, Duration::from_secs(1)).unwrap();
    let count = TopicCount::empty();
    let registration = count.registration(0);
    let left_behind = [("g_equal", registration.as_str()), ("g_other", "x")];
    for (member, text) in left_behind {
        let path = format!("/consumers/g/ids/{member}");
        crashed.create_ephemeral(&path, text).unwrap();
    }
    crashed.abandon();
    let stopper = Stopper::new();
    let stop = stopper.signal();
    for (member, _) in left_behind {
        group.register(member, &registration, &stop).unwrap();
        assert!(group.is_registered(member, &count).unwrap(), "{member}");
    }
}

fn a_member_id_of_a_live_session_is_taken(kind: ServerKind) {
    let fixture = Fixture::with_session(kind, Duration::from_secs(1));
    fixture.other.put("/consumers/g/ids", "").unwrap();
    fixture
        .other
        .create_ephemeral("/consumers/g/ids/g_m", "x")
        .unwrap();
    let stopper = Stopper::new();
    let stop = stopper.signal();
    let error = fixture.group().register("g_m", "x", &stop).unwrap_err();
    let Error::MemberIdTaken { path, session } = error else {
        panic!("{error}");
    };
    assert_eq!(path, "/consumers/g/ids/g_m");
    assert_eq!(session, fixture.other.session_id());
}

fn a_stop_ends_the_wait_for_a_member_id(kind: ServerKind) {
    let fixture = Fixture::with_session(kind, Duration::from_secs(60));
    fixture.other.put("/consumers/g/ids", "").unwrap();
    fixture
        .other
        .create_ephemeral("/consumers/g/ids/g_m", "x")
        .unwrap();
    let group = fixture.group();
    let stopper = Stopper::new();
    let signal = stopper.signal();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| group.register("g_m", "x", &signal));
        stopper.stop();
        assert!(matches!(waiting.join().unwrap(), Err(Error::Closed)));
    });
}

fn members_are_in_order_and_a_bad_registration_stops_nobody(kind: ServerKind) {
    let fixture = Fixture::new(kind);
    let group = fixture.group();
    let topics = ["a", "t", "t2"].map(String::from);
    assert_eq!(group.members().unwrap(), []);
    fixture.other.put("/consumers/g/ids", "").unwrap();
    let fixed = r#"{"version":1,"subscription":{"t":2},"pattern":"static"}"#;
    for (id, registration) in [
        ("g_a", fixed),
        ("g_B", "no json"),
        ("g_\u{ffee}", fixed),
        (
            "g_\u{e9}",
            r#"{"subscription":{"t.*":1},"pattern":"black_list"}"#,
        ),
        (
            "g_\u{ea}",
            r#"{"subscription":{"t(":1},"pattern":"white_list"}"#,
        ),
    ] {
        let path = format!("/consumers/g/ids/{id}");
        fixture.other.create_ephemeral(&path, registration).unwrap();
    }
    let members = group.members().unwrap().into_iter();
    let members: Vec<_> = members
        .map(|member| member.narrowed(&topics, true, &|| false))
        .collect();
    let ids: Vec<_> = members.iter().map(|member| member.id.as_str()).collect();
    assert_eq!(ids, ["g_B", "g_a", "g_\u{e9}", "g_\u{ea}", "g_\u{ffee}"]);
    assert_eq!(group.member_ids().unwrap(), ids);
    let asked: Vec<Vec<&str>> = members
        .iter()
        .map(|member| member.topic_count.topics().collect())
        .collect();
    assert_eq!(asked, [vec![], vec!["t"], vec!["a"], vec![], vec!["t"]]);
    let troubles: Vec<_> = members.iter().map(|member| &member.trouble).collect();
    for (trouble, part) in [
        (troubles[0], "unusable registration"),
        (troubles[3], "`t(`"),
    ] {
        assert!(trouble.as_ref().unwrap().contains(part), "{trouble:?}");
    }
    for trouble in [troubles[1], troubles[2], troubles[4]] {
        assert_eq!(*trouble, None);
    }
}

fn an_event_tells_that_a_member_came(kind: ServerKind) {
    let fixture = Fixture::new(kind);
    let group = fixture.group();
    let stopper = Stopper::new();
    group.register("g_m", "x", &stopper.signal()).unwrap();
    assert_eq!(group.watch_members().unwrap(), ["g_m"]);
    fixture
        .other
        .create_ephemeral("/consumers/g/ids/g_n", "x")
        .unwrap();
    fixture.expect_event(ZkEvent::ChildrenChanged(group.members_path()));
    assert_eq!(group.watch_members().unwrap(), ["g_m", "g_n"]);
}

fn a_free_partition_is_claimed_and_a_second_claim_finds_it_ours(kind: ServerKind) {
    let fixture = Fixture::new(kind);
    let group = fixture.group();
    let claims = [claim_of(0, 0), claim_of(1, 10)];
    let results = group.claim(&claims);
    assert!(
        results.iter().all(|claim| matches!(claim, Claim::Created)),
        "{results:?}"
    );
    assert!(fixture.ours("/consumers/g/owners/t/1"));
    assert_eq!(
        fixture.other.get("/consumers/g/owners/t/1").unwrap(),
        "g_m-10"
    );
    let results = group.claim(&claims);
    assert!(
        results
            .iter()
            .all(|claim| matches!(claim, Claim::AlreadyMine)),
        "{results:?}"
    );
}

/// An owner node that an earlier attempt left behind keeps a partition from the whole group, its
/// own member included, when the next assignment wants it for another thread (D18).
fn a_partition_of_another_thread_of_ours_is_claimed(kind: ServerKind) {
    let fixture = Fixture::new(kind);
    let group = fixture.group();
    group.claim(&[claim_of(0, 0)]);
    let results = group.claim(&[claim_of(0, 1), claim_of(1, 1)]);
    assert!(results.iter().all(Claim::is_mine), "{results:?}");
    assert_eq!(
        fixture.other.get("/consumers/g/owners/t/0").unwrap(),
        "g_m-1"
    );
}

fn a_partition_of_another_session_is_in_conflict_even_with_equal_text(kind: ServerKind) {
    let fixture = Fixture::new(kind);
    let group = fixture.group();
    fixture.other.put("/consumers/g/owners/t", "").unwrap();
    fixture
        .other
        .create_ephemeral("/consumers/g/owners/t/0", "g_m-0")
        .unwrap();
    fixture
        .other
        .create_ephemeral("/consumers/g/owners/t/2", "g_x-7")
        .unwrap();
    let results = group.claim(&[claim_of(0, 0), claim_of(1, 0), claim_of(2, 0)]);
    assert!(matches!(&results[0], Claim::Conflict { owner } if owner == "g_m-0"));
    assert!(matches!(&results[1], Claim::Created));
    assert!(matches!(&results[2], Claim::Conflict { owner } if owner == "g_x-7"));

    let owner = |thread: &str, is_mine| Owner {
        thread: thread.to_owned(),
        is_mine,
    };
    let owners = group
        .owners(&[String::from("t"), String::from("missing")])
        .unwrap();
    let owners: Vec<_> = owners.into_iter().collect();
    let expected = [
        (partition(0), owner("g_m-0", false)),
        (partition(1), owner("g_m-0", true)),
        (partition(2), owner("g_x-7", false)),
    ];
    assert_eq!(owners, expected);
}

/// Kafka deletes owner nodes by their path alone, also when they are somebody else's by now (D17).
fn a_release_deletes_only_what_is_ours(kind: ServerKind) {
    let fixture = Fixture::new(kind);
    let group = fixture.group();
    fixture.other.put("/consumers/g/owners/t", "").unwrap();
    fixture
        .other
        .create_ephemeral("/consumers/g/owners/t/0", "g_m-0")
        .unwrap();
    group.claim(&[claim_of(1, 0), claim_of(2, 1)]);
    let claims = [
        claim_of(0, 0),
        claim_of(1, 0),
        claim_of(2, 0),
        claim_of(3, 0),
    ];
    let results: Vec<bool> = group
        .release(&claims)
        .into_iter()
        .map(Result::unwrap)
        .collect();
    assert_eq!(results, [false, true, false, false]);
    let left = fixture.other.children("/consumers/g/owners/t").unwrap();
    assert_eq!(left, ["0", "2"]);
}

fn a_stored_offset_is_a_bare_number(kind: ServerKind) {
    let fixture = Fixture::new(kind);
    let group = fixture.group();
    let stored = group.store_offsets(&[(partition(0), 42), (partition(10), i64::MAX)]);
    assert!(stored.iter().all(Result::is_ok), "{stored:?}");
    assert_eq!(fixture.other.get("/consumers/g/offsets/t/0").unwrap(), "42");
    let stored = group.store_offsets(&[(partition(0), 7), (partition(1), 1)]);
    assert!(stored.iter().all(Result::is_ok), "{stored:?}");
    assert_eq!(fixture.other.get("/consumers/g/offsets/t/0").unwrap(), "7");
    assert_eq!(
        fixture
            .other
            .stat("/consumers/g/offsets/t/0")
            .unwrap()
            .ephemeral_owner,
        None
    );

    fixture.other.put("/consumers/g/offsets/t/2", "-1").unwrap();
    fixture
        .other
        .put("/consumers/g/offsets/t/3", "earliest")
        .unwrap();
    let asked: Vec<_> = [0, 1, 2, 3, 4, 10].map(partition).into();
    let read = group.offsets(&asked).unwrap();
    let read: Vec<_> = asked
        .iter()
        .map(|partition| read[partition].stored.clone())
        .collect();
    assert_eq!(read[..3], [Ok(Some(7)), Ok(Some(1)), Ok(None)]);
    assert!(read[3].as_ref().unwrap_err().contains("`earliest`"));
    assert_eq!(read[4..], [Ok(None), Ok(Some(i64::MAX))]);
}

fn owned(number: i32, offset: i64, node: SeenNode) -> OwnedOffset {
    OwnedOffset {
        partition: partition(number),
        offset,
        node,
    }
}

fn an_owner_writes_over_what_it_has_seen_and_who_lost_the_partition_over_nothing(kind: ServerKind) {
    // The original wrote whatever it had: a member whose owner node was deleted moved the next owner's offset back.
    let fixture = Fixture::new(kind);
    let group = fixture.group();
    let session = fixture.zk.session_id().unwrap();
    group.claim(&[claim_of(0, 0), claim_of(1, 0)]);
    group.store_offsets(&[(partition(0), 10)]);
    let seen = group.offsets(&[partition(0), partition(1)]).unwrap();
    let node = |number| seen[&partition(number)].node;
    assert_eq!(node(1), SeenNode::Absent);
    let offsets = [owned(0, 11, node(0)), owned(1, 1, node(1))];
    let written: Vec<_> = group.store_owned_offsets(session, &offsets);
    let written: Vec<_> = written.into_iter().map(Result::unwrap).collect();
    assert!(
        written.iter().all(|it| it.replaced.is_none()),
        "{written:?}"
    );
    assert_eq!(fixture.other.get("/consumers/g/offsets/t/0").unwrap(), "11");
    assert_eq!(fixture.other.get("/consumers/g/offsets/t/1").unwrap(), "1");

    fixture.other.delete("/consumers/g/owners/t/0").unwrap();
    let owner = "/consumers/g/owners/t/0";
    fixture.other.create(owner, "g_other-0").unwrap();
    fixture.other.put("/consumers/g/offsets/t/0", "50").unwrap();
    fixture.other.delete("/consumers/g/owners/t/1").unwrap();
    fixture.other.put("/consumers/g/offsets/t/1", "51").unwrap();
    let offsets = [
        owned(0, 12, SeenNode::Version(written[0].version)),
        owned(1, 2, SeenNode::Version(written[1].version)),
    ];
    let refused: Vec<String> = group
        .store_owned_offsets(session, &offsets)
        .into_iter()
        .map(|result| result.unwrap_err().chain())
        .collect();
    assert_eq!(
        refused,
        [
            "offset of t/0 not stored: /consumers/g/owners/t/0 is owned by g_other-0",
            "offset of t/1 not stored: /consumers/g/owners/t/1 is owned by nobody"
        ]
    );
    assert_eq!(fixture.other.get("/consumers/g/offsets/t/0").unwrap(), "50");
    assert_eq!(fixture.other.get("/consumers/g/offsets/t/1").unwrap(), "51");
}

fn an_owner_writes_over_what_somebody_else_has_stored_or_deleted(kind: ServerKind) {
    let fixture = Fixture::new(kind);
    let group = fixture.group();
    let session = fixture.zk.session_id().unwrap();
    group.claim(&[claim_of(0, 0), claim_of(1, 0), claim_of(2, 0)]);
    let stored = group.store_offsets(&[(partition(0), 10), (partition(1), 20)]);
    let versions: Vec<i32> = stored.into_iter().map(Result::unwrap).collect();
    fixture.other.put("/consumers/g/offsets/t/0", "3").unwrap();
    fixture.other.delete("/consumers/g/offsets/t/1").unwrap();
    let offsets = [
        owned(0, 11, SeenNode::Version(versions[0])),
        owned(1, 21, SeenNode::Version(versions[1])),
        owned(2, 31, SeenNode::Unknown),
    ];
    let written = group.store_owned_offsets(session, &offsets);
    let replaced: Vec<_> = written
        .into_iter()
        .map(|result| result.unwrap().replaced.unwrap())
        .collect();
    assert_eq!(replaced, [Ok(Some(3)), Ok(None), Ok(None)]);
    for (number, offset) in ["11", "21", "31"].iter().enumerate() {
        let path = format!("/consumers/g/offsets/t/{number}");
        assert_eq!(fixture.other.get(&path).unwrap(), *offset);
    }
    let dead = group.store_owned_offsets(session + 1, &[owned(0, 12, SeenNode::Unknown)]);
    assert!(dead[0].is_err());
}

fn a_thousand_partitions_are_claimed_stored_read_and_released(kind: ServerKind) {
    let fixture = Fixture::new(kind);
    let group = fixture.group();
    let claims: Vec<_> = (0..1000).map(|n| claim_of(n, 0)).collect();
    let partitions: Vec<_> = (0..1000).map(partition).collect();
    let offsets: Vec<_> = (0..1000).map(|n| (partition(n), i64::from(n))).collect();
    assert!(group.claim(&claims).iter().all(Claim::is_mine));
    assert!(group.store_offsets(&offsets).iter().all(Result::is_ok));
    let read = group.offsets(&partitions).unwrap();
    assert!(
        offsets
            .iter()
            .all(|(partition, offset)| read[partition].stored == Ok(Some(*offset)))
    );
    let owners = group.owners(&[String::from("t")]).unwrap();
    assert_eq!(owners.len(), 1000);
    assert!(owners.values().all(|owner| owner.is_mine));
    assert!(
        group
            .release(&claims)
            .iter()
            .all(|result| matches!(result, Ok(true)))
    );
    assert!(group.owners(&[String::from("t")]).unwrap().is_empty());
}

fn a_group_can_be_deleted_whole(kind: ServerKind) {
    let fixture = Fixture::new(kind);
    let group = fixture.group();
    let stopper = Stopper::new();
    group.register("g_m", "x", &stopper.signal()).unwrap();
    group.claim(&[claim_of(0, 0)]);
    group.store_offsets(&[(partition(0), 1)]);
    group.delete_group().unwrap();
    assert_eq!(
        fixture.other.children("/consumers").unwrap(),
        Vec::<String>::new()
    );
    group.delete_group().unwrap();
}

fn live_brokers_are_listed_whether_they_can_be_used_or_not(kind: ServerKind) {
    let fixture = Fixture::new(kind);
    let registry = BrokerRegistry::new(Arc::clone(&fixture.zk));
    assert!(registry.is_empty().unwrap());
    assert!(registry.brokers(None).unwrap().is_empty());
    assert!(registry.watch().unwrap());
    fixture.other.put("/brokers/ids", "").unwrap();
    fixture.expect_event(ZkEvent::NodeCreated(String::from(BrokerRegistry::PATH)));
    assert!(registry.watch().unwrap(), "still none");
    let json = r#"{"version":1,"host":"h","port":9092}"#;
    fixture
        .other
        .create_ephemeral("/brokers/ids/10", json)
        .unwrap();
    fixture.expect_event(ZkEvent::ChildrenChanged(String::from(BrokerRegistry::PATH)));
    fixture
        .other
        .create_ephemeral("/brokers/ids/9", json)
        .unwrap();
    fixture
        .other
        .create_ephemeral("/brokers/ids/3", "?")
        .unwrap();
    assert!(!registry.is_empty().unwrap());
    let brokers = registry.brokers(None).unwrap();
    let ids: Vec<_> = brokers.connectable.iter().map(|broker| broker.id).collect();
    assert_eq!(ids, [9, 10]);
    assert_eq!(brokers.skipped[0].0, "3");
}

fn partitions_of_topics_are_read_and_changes_told(kind: ServerKind) {
    let fixture = Fixture::new(kind);
    let registry = TopicRegistry::new(Arc::clone(&fixture.zk));
    let topics = ["a", "b", "c"].map(String::from);
    fixture
        .other
        .put("/brokers/topics/a", r#"{"partitions":{"10":[],"2":[]}}"#)
        .unwrap();
    fixture.other.put("/brokers/topics/b", "?").unwrap();
    let read = registry.watch_partitions(&topics).unwrap();
    assert_eq!(read, registry.partitions(&topics).unwrap());
    assert_eq!(read.partitions["a"], [2, 10]);
    assert_eq!(read.partitions["b"], Vec::<i32>::new());
    assert_eq!(read.missing, ["c"]);
    assert_eq!(read.unusable[0].0, "b");
    let existing = registry.existing(&topics).unwrap();
    assert_eq!(existing.into_iter().collect::<Vec<_>>(), ["a", "b"]);

    let path = |topic: &str| format!("/brokers/topics/{topic}");
    fixture.other.set(&path("a"), "{}").unwrap();
    fixture.expect_event(ZkEvent::DataChanged(path("a")));
    fixture.other.delete(&path("b")).unwrap();
    fixture.expect_event(ZkEvent::NodeDeleted(path("b")));
    fixture.other.put(&path("c"), "{}").unwrap();
    fixture.expect_event(ZkEvent::NodeCreated(path("c")));
}

/// Kafka 0.8.2.2 creates a chroot that is missing and sees an empty cluster there (KAFKA-2088).
fn a_missing_chroot_is_an_error_and_is_not_created(kind: ServerKind) {
    let fixture = Fixture::new(kind);
    let config = ZkConfig {
        connect: format!("{}/ghost", fixture.connect),
        session_timeout: Duration::from_secs(10),
        connection_timeout: LIMIT,
    };
    let error = ZkClient::connect(config).err().unwrap();
    assert!(matches!(error, Error::MissingChroot { .. }), "{error}");

    let root = ZooKeeperShell::connect(&fixture.server.connect_string());
    let (_, chroot) = fixture.connect.split_once('/').unwrap();
    root.delete(&format!("/{chroot}")).unwrap();
    let group = fixture.group();
    let stopper = Stopper::new();
    let stop = stopper.signal();
    assert!(group.register("g_m", "x", &stop).is_err());
    assert!(matches!(
        group.claim(&[claim_of(0, 0)])[..],
        [Claim::Failed(_)]
    ));
    assert!(group.store_offsets(&[(partition(0), 1)])[0].is_err());
    assert!(!root.exists(&format!("/{chroot}")));
}
