//! A member in a process of its own, so that it can be killed.

use std::env;
use std::io::BufRead;
use std::io::BufReader;
use std::io::Read;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::thread;
use std::thread::JoinHandle;
use std::time::Duration;
use std::time::Instant;

use kafka_zk_consumer::ConsumerConnector;

use crate::numbered::Delivery;
use crate::numbered::Journal;
use crate::numbered::TOPIC;
use crate::numbered::member_config;

const NAME: &str = "member_process::a_member_until_it_is_killed";
const ZOOKEEPER: &str = "KZC_MEMBER_ZOOKEEPER";
const ID: &str = "KZC_MEMBER_ID";

/// Session timeout of every such member.
pub(crate) const SESSION: Duration = Duration::from_secs(4);

/// This binary once more, as a member; killed when dropped.
pub(crate) struct MemberProcess {
    child: Child,
    reader: Option<JoinHandle<()>>,
}

impl MemberProcess {
    /// Joins the group as `<GROUP>_<id>`; what it gets goes into the journal.
    pub(crate) fn start(zookeeper: &str, id: &str, journal: &Journal) -> Self {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", NAME, "--nocapture", "--include-ignored"])
            .env(ZOOKEEPER, zookeeper)
            .env(ID, id)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (journal, member) = (journal.clone(), id.to_owned());
        let body = move || {
            let lines = lines.map_while(Result::ok);
            for line in lines.filter_map(|line| Some(line.strip_prefix("got ")?.to_owned())) {
                let mut fields = line.split(' ');
                let mut next = || fields.next().unwrap().parse::<u64>().unwrap();
                journal.note(Delivery {
                    member: member.clone(),
                    partition: i32::try_from(next()).unwrap(),
                    offset: i64::try_from(next()).unwrap(),
                    number: next(),
                    at: Instant::now(),
                });
            }
        };
        Self {
            child,
            reader: Some(thread::spawn(body)),
        }
    }

    /// SIGKILL: its session lives on for a while, and with it its nodes.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap();
        }
    }
}

impl Drop for MemberProcess {
    fn drop(&mut self) {
        // Fails if it is dead already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
#[ignore = "the other side of MemberProcess"]
fn a_member_until_it_is_killed() {
    let zookeeper = env::var(ZOOKEEPER).expect("started as a MemberProcess");
    let id = env::var(ID).unwrap();
    let config = member_config(&zookeeper, &id, SESSION).build().unwrap();
    let connector = ConsumerConnector::connect(config).unwrap();
    // Until the other side kills this process, or ends itself.
    thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    let mut streams = connector.create_message_streams([(TOPIC, 1)]).unwrap();
    println!();
    for message in streams.remove(TOPIC).unwrap().remove(0) {
        let message = message.unwrap();
        let number = std::str::from_utf8(message.value().unwrap()).unwrap();
        println!("got {} {} {number}", message.partition(), message.offset());
    }
}
