//! A group to which everything happens at random, and what must be true all the same.
//!
//! Members join, leave, crash, stall, pause partitions and lose their sessions; brokers die, return, fall silent and
//! answer nonsense; leaders move and partitions are added; ZooKeeper hangs and goes away. Meanwhile, numbered messages
//! are written.
//!
//! - No call on a stream that begins after another member's claim of a partition was seen, while that claim lasts,
//!   hands out a message of that partition. What a call had begun to hand out before is in flight. A member whose
//!   session was ended by force, before its time, may be mistaken for a session timeout.
//! - Stored offsets never go back, and are never ahead of what was delivered.
//! - From claim to release, a member gets the messages of a partition one after the other, without gap or repetition.
//! - After each quiet, every partition has one living owner, every acknowledged message has been delivered, and the
//!   stored offsets are the ends of the logs.
//! - Joining, leaving, settling, and every call on a stream or a connector take no longer than the bounds below.

mod driver;
mod member;
mod observer;
mod random;
mod record;

use std::time::Duration;
use std::time::SystemTime;
use std::time::UNIX_EPOCH;

use crate::random_run::driver::Driver;

const TOPIC: &str = "numbers";
const GROUP: &str = "g";

/// A shutdown, with a ZooKeeper that may be out of reach.
const LEAVE_LIMIT: Duration = Duration::from_secs(8);
/// A start: connecting, and the attempts of the first rebalance, to which ZooKeeper may not answer.
const JOIN_LIMIT: Duration = Duration::from_secs(20);
/// A call on a stream, beyond the time that it was given, and any other call of an application that need not wait.
const CALL_LIMIT: Duration = Duration::from_secs(5);
/// From the end of all disturbance until nothing is left to do.
const SETTLE_LIMIT: Duration = Duration::from_secs(30);

fn from_environment(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name}={value}")))
}

#[test]
fn a_group_to_which_everything_happens_at_random_loses_nothing_and_settles() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let seed = from_environment("KZC_RANDOM_SEED").unwrap_or(now.subsec_nanos().into());
    let seconds = from_environment("KZC_RANDOM_SECONDS").unwrap_or(20);
    println!("KZC_RANDOM_SEED={seed} KZC_RANDOM_SECONDS={seconds}");
    let mut driver = Driver::start(seed);
    let is_sound = driver.run(Duration::from_secs(seconds));
    let record = driver.finish();
    println!("{}", record.summary());
    assert!(is_sound, "{}KZC_RANDOM_SEED={seed}", record.story());
}
