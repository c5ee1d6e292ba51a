use std::fmt::Write;

use crate::embedded::zookeeper::database::Database;
use crate::embedded::zookeeper::server::ConnectionInfo;
use crate::embedded::zookeeper::server::Server;

const VERSION: &str = "3.4.6-embedded, built on demand";

/// The answer to a question that is put in four letters instead of a length.
pub(super) fn answer(server: &Server, word: [u8; 4]) -> Option<String> {
    Some(match &word {
        b"ruok" => String::from("imok"),
        b"isro" => String::from("rw"),
        b"srvr" => format!("Zookeeper version: {VERSION}\n{}", state(server)),
        b"stat" => format!(
            "Zookeeper version: {VERSION}\nClients:\n{}\n{}",
            clients(server),
            state(server)
        ),
        b"cons" => clients(server),
        b"dump" => dump(&server.database()),
        _ => return None,
    })
}

fn state(server: &Server) -> String {
    let connections = server.connection_infos();
    let sum = |count: fn(&ConnectionInfo) -> u64| connections.iter().map(count).sum::<u64>();
    let database = server.database();
    format!(
        "Latency min/avg/max: 0/0/0\nReceived: {}\nSent: {}\nConnections: {}\nOutstanding: 0\n\
         Zxid: {:#x}\nMode: standalone\nNode count: {}\n",
        sum(|connection| connection.received),
        sum(|connection| connection.sent),
        connections.len(),
        database.zxid(),
        // As in ZooKeeper: the root counts twice, for it has two names.
        database.tree.len() + 1,
    )
}

fn clients(server: &Server) -> String {
    let mut text = String::new();
    for connection in server.connection_infos() {
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            " /{}[1](queued={},recved={},sent={})",
            connection.peer, connection.waiting, connection.received, connection.sent
        );
    }
    text
}

fn dump(database: &Database) -> String {
    let sessions = database.session_infos();
    let mut text = format!("SessionTracker dump:\nSession Sets ({}):\n", sessions.len());
    for session in &sessions {
        let timeout = session.timeout.map_or(0, |timeout| timeout.as_millis());
        let _ = writeln!(text, "\t{:#x}\t{timeout}ms", session.id);
    }
    let owners = sessions
        .iter()
        .filter(|session| !session.ephemerals.is_empty());
    let _ = writeln!(
        text,
        "ephemeral nodes dump:\nSessions with Ephemerals ({}):",
        owners.clone().count()
    );
    for session in owners {
        let _ = writeln!(text, "{:#x}:", session.id);
        for path in &session.ephemerals {
            let _ = writeln!(text, "\t{path}");
        }
    }
    text
}
