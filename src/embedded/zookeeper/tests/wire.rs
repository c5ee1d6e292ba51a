//! What goes over the wire, byte for byte where it matters: the same from a real server 3.4.6.

use std::io::Write;

use crate::embedded::zookeeper::record_reader::RecordReader;
use crate::embedded::zookeeper::record_writer::RecordWriter;
use crate::embedded::zookeeper::request::op_code;
use crate::embedded::zookeeper::session::password_of;
use crate::embedded::zookeeper::stat::Stat;
use crate::embedded::zookeeper::tests::wire_client::WireClient;
use crate::embedded::zookeeper::tests::wire_client::ask;
use crate::embedded::zookeeper::tests::wire_client::connect_request;
use crate::embedded::zookeeper::tests::wire_client::create;
use crate::embedded::zookeeper::tests::wire_client::socket;
use crate::embedded::zookeeper::tests::wire_client::stat;
use crate::test_zookeeper::TestZooKeeper;
use crate::test_zookeeper::scenarios_of_3_4;

scenarios_of_3_4! {
    crate::test_zookeeper::ServerKind::start;
    every_refusal_has_its_code,
    an_unknown_request_is_answered_and_ends_the_connection,
    a_request_that_ends_too_early_is_refused_and_no_more,
    a_frame_of_a_length_that_cannot_be_ends_the_connection,
    a_node_tells_its_history,
    a_failed_write_is_a_transaction,
    sequential_names_count_all_children_that_ever_were,
    a_node_may_have_no_data,
    an_access_list_is_kept_and_shown,
    a_fresh_server_has_its_own_nodes,
    a_multi_is_done_whole,
    a_multi_is_not_done_at_all_when_one_operation_fails,
    a_multi_with_an_unknown_operation_is_refused,
    an_event_comes_before_the_reply_of_the_write_that_caused_it,
    a_deletion_is_told_once_to_whoever_watches_both_ways,
    watches_that_are_set_again_tell_what_they_missed,
    a_session_is_taken_over_with_its_password_only,
    a_session_has_one_connection_the_last_one,
    closing_a_session_answers_and_hangs_up,
    who_has_seen_the_future_is_sent_away,
    any_digest_is_accepted_and_another_scheme_is_not,
    four_letters_are_answered,
    an_old_client_is_not_told_of_read_only_servers,
    a_session_timeout_is_negotiated,
}

type Server = Box<dyn TestZooKeeper>;

fn open(server: &Server) -> WireClient {
    WireClient::open(&server.connect_string())
}

fn every_refusal_has_its_code(server: Server) {
    let mut client = open(&server);
    assert_eq!(client.create("/a", 0).error, 0);
    assert_eq!(client.create("/a/b", 0).error, 0);
    assert_eq!(client.create("/e", 1).error, 0);
    for (path, flags, code) in [
        ("/a", 0, -110),
        ("/x/y", 0, -101),
        ("/e/f", 0, -108),
        ("/e/f", 1, -108),
        ("/", 0, -110),
        ("/a/", 0, -8),
        ("a", 0, -8),
        ("/a/..", 0, -8),
        ("/a/\u{1}", 0, -8),
        ("/a\0", 0, -8),
        ("/new", 9, -8),
        ("/x/y", 9, -101),
    ] {
        let reply = client.create(path, flags);
        assert_eq!(reply.error, code, "{path:?}");
        assert!(reply.body.is_empty(), "{path:?}");
    }
    for (path, version, code) in [
        ("/a", 7, -103),
        ("/a", -1, -111),
        ("/a", 0, -111),
        ("/x", -1, -101),
        ("/x/y", -1, -101),
        ("/", -1, -8),
        ("/zookeeper", -1, -8),
        ("/zookeeper/quota", -1, -8),
        ("a", -1, -8),
    ] {
        assert_eq!(client.delete(path, version).error, code, "{path:?}");
    }
    assert_eq!(client.set("/x", b"", -1).error, -101);
    assert_eq!(client.set("/a", b"", 1).error, -103);
    assert_eq!(client.exists("/x", false).error, -101);
    assert_eq!(client.exists("/a\0", false).error, -8);
    for op_code in [
        op_code::GET_DATA,
        op_code::GET_CHILDREN,
        op_code::GET_CHILDREN_2,
    ] {
        let reply = client.call(op_code, |body| body.string("/x").bool(true));
        assert_eq!((reply.error, reply.body), (-101, vec![]));
    }
    let no_acl = |body: RecordWriter| body.string("/b").buffer(None).acl(&[]).i32(0);
    assert_eq!(client.call(op_code::CREATE, no_acl).error, -114);
}

fn an_unknown_request_is_answered_and_ends_the_connection(server: Server) {
    for unknown in [15, 18, 106, 12345] {
        let mut client = open(&server);
        let reply = client.call(unknown, |body| body.string("/a"));
        assert_eq!((reply.error, reply.body), (-6, vec![]), "{unknown}");
        client.expect_end();
        let session = client.session;
        let back = WireClient::resume(&server.connect_string(), session, 0, &password_of(session));
        assert!(back.is_some(), "the session survives");
    }
}

fn a_request_that_ends_too_early_is_refused_and_no_more(server: Server) {
    let mut client = open(&server);
    for op_code in [
        op_code::CREATE,
        op_code::DELETE,
        op_code::EXISTS,
        op_code::GET_DATA,
        op_code::SET_DATA,
        op_code::GET_CHILDREN,
        op_code::SYNC,
        op_code::MULTI,
        op_code::SET_WATCHES,
    ] {
        let reply = client.call(op_code, |body| body.i32(1000));
        assert_eq!((reply.error, reply.body), (-5, vec![]), "{op_code}");
    }
    assert_eq!(client.exists("/", false).error, 0);
}

fn a_frame_of_a_length_that_cannot_be_ends_the_connection(server: Server) {
    for length in [-1, i32::MIN, 0x10_0000, i32::MAX] {
        let mut client = open(&server);
        client.socket.write_all(&length.to_be_bytes()).unwrap();
        client.expect_end();
    }
    // The longest there may be, and one byte more.
    let longest = vec![7; 0xf_ffff - 4 - 4 - 4 - "/missing".len() - 4 - 4];
    let mut client = open(&server);
    assert_eq!(client.set("/missing", &longest, -1).error, -101);
    let frame = RecordWriter::new().i32(2).i32(op_code::SET_DATA);
    let frame = frame.string("/missing!").buffer(Some(&longest)).i32(-1);
    // Fails when the server hangs up in the middle.
    let _ = client.socket.write_all(&frame.finish());
    client.expect_end();
}

fn a_node_tells_its_history(server: Server) {
    let mut client = open(&server);
    let created = client.create("/a", 0).zxid;
    let written = client.set("/a", b"longer", -1).zxid;
    client.create("/a/b", 0);
    client.create("/a/c", 1);
    client.delete("/a/b", -1);
    let child = client.create("/a/d", 0).zxid;
    let told = client.stat("/a");
    assert!(told.mtime >= told.ctime && told.ctime > 1_400_000_000_000);
    let expected = Stat {
        czxid: created,
        mzxid: written,
        pzxid: child,
        ctime: told.ctime,
        mtime: told.mtime,
        version: 1,
        cversion: 4,
        aversion: 0,
        ephemeral_owner: None,
        data_length: 6,
        num_children: 2,
    };
    assert_eq!(told, expected);
    let deleted = client.delete("/a/d", -1).zxid;
    let told = client.stat("/a");
    assert_eq!(
        (told.pzxid, told.cversion, told.num_children),
        (deleted, 5, 1)
    );
    let ephemeral = client.stat("/a/c");
    assert_eq!(ephemeral.ephemeral_owner, Some(client.session));
    assert_eq!((ephemeral.version, ephemeral.data_length), (0, 4));
    assert_eq!(ephemeral.mzxid, ephemeral.czxid);
    assert_eq!(ephemeral.pzxid, ephemeral.czxid);
}

fn a_failed_write_is_a_transaction(server: Server) {
    let mut client = open(&server);
    let first = client.create("/a", 0).zxid;
    assert_eq!(client.create("/a", 0).zxid, first + 1);
    assert_eq!(client.delete("/x", -1).zxid, first + 2);
    assert_eq!(client.exists("/a", false).zxid, first + 2);
    let _other = open(&server);
    assert_eq!(
        client.exists("/x", false).zxid,
        first + 3,
        "a session began"
    );
}

fn sequential_names_count_all_children_that_ever_were(server: Server) {
    let mut client = open(&server);
    client.create("/q", 0);
    let mut name = |flags| {
        let reply = client.create("/q/n-", flags);
        let mut reader = RecordReader::new(&reply.body);
        (reply.error, reader.string("path").unwrap())
    };
    assert_eq!(name(2), (0, String::from("/q/n-0000000000")));
    assert_eq!(name(3), (0, String::from("/q/n-0000000001")));
    client.delete("/q/n-0000000000", -1);
    client.create("/q/other", 0);
    let reply = client.create("/q/", 2);
    let path = RecordReader::new(&reply.body).string("path").unwrap();
    assert_eq!(path, "/q/0000000003");
}

fn a_node_may_have_no_data(server: Server) {
    let mut client = open(&server);
    let reply = client.call(op_code::CREATE, |body| {
        let body = body.string("/null").buffer(None).i32(1).i32(31);
        body.string("world").string("anyone").i32(0)
    });
    assert_eq!(reply.error, 0);
    let reply = client.call(op_code::GET_DATA, |body| body.string("/null").bool(false));
    let mut reader = RecordReader::new(&reply.body);
    assert_eq!(reader.buffer("data").unwrap(), None);
    assert_eq!(stat(&mut reader).data_length, 0);
    assert!(reader.is_empty());
}

fn an_access_list_is_kept_and_shown(server: Server) {
    let mut client = open(&server);
    client.create("/a", 0);
    let entries = |body: RecordWriter| body.i32(1).i32(31).string("world").string("anyone");
    let reply = client.call(op_code::SET_ACL, |body| entries(body.string("/a")).i32(-1));
    assert_eq!(stat(&mut RecordReader::new(&reply.body)).aversion, 1);
    let reply = client.call(op_code::SET_ACL, |body| entries(body.string("/a")).i32(0));
    assert_eq!(reply.error, -103);
    let reply = client.call(op_code::GET_ACL, |body| body.string("/a"));
    let expected = entries(RecordWriter::new()).finish();
    assert!(reply.body.starts_with(&expected[4..]));
}

fn a_fresh_server_has_its_own_nodes(server: Server) {
    let mut client = open(&server);
    let root = client.stat("/");
    let expected = Stat {
        cversion: -1,
        num_children: 1,
        ..Stat::default()
    };
    assert_eq!(root, expected);
    let reply = client.call(op_code::GET_CHILDREN_2, |body| body.string("/").bool(false));
    let mut reader = RecordReader::new(&reply.body);
    assert_eq!(reader.strings("children").unwrap(), ["zookeeper"]);
    assert_eq!(stat(&mut reader), expected);
    assert_eq!(client.stat("/zookeeper/quota").num_children, 0);
    let reply = client.call(op_code::SYNC, |body| body.string("/zookeeper"));
    let path = RecordReader::new(&reply.body).string("path").unwrap();
    assert_eq!(path, "/zookeeper");
}

fn header(body: RecordWriter, op_code: i32, is_done: bool) -> RecordWriter {
    body.i32(op_code).bool(is_done).i32(-1)
}

fn a_multi_is_done_whole(server: Server) {
    let mut client = open(&server);
    client.create("/old", 0);
    let reply = client.call(op_code::MULTI, |body| {
        let body = create(header(body, op_code::CREATE, false), "/a", 0);
        let body = create(header(body, op_code::CREATE, false), "/a/n", 3);
        let body = header(body, op_code::SET_DATA, false).string("/a");
        let body = body.buffer(Some(b"new")).i32(0);
        let body = header(body, op_code::CHECK, false).string("/a").i32(1);
        let body = header(body, op_code::DELETE, false).string("/old").i32(0);
        header(body, -1, true)
    });
    assert_eq!(reply.error, 0);
    let told = client.stat("/a");
    let during = Stat {
        num_children: 1,
        ..told
    };
    let header = |body: RecordWriter, op_code| body.i32(op_code).bool(false).i32(0);
    let expected = header(RecordWriter::new(), op_code::CREATE).string("/a");
    let expected = header(expected, op_code::CREATE).string("/a/n0000000000");
    let expected = header(expected, op_code::SET_DATA).stat(&during);
    let expected = header(expected, op_code::CHECK);
    let expected = header(expected, op_code::DELETE);
    let expected = expected.i32(-1).bool(true).i32(-1).finish();
    assert_eq!(reply.body, expected[4..]);
    assert_eq!((told.czxid, told.mzxid), (reply.zxid, reply.zxid));
    assert_eq!(client.exists("/old", false).error, -101);
}

fn a_multi_is_not_done_at_all_when_one_operation_fails(server: Server) {
    let mut client = open(&server);
    client.create("/old", 0);
    client.create("/old/child", 1);
    let before = [
        client.stat("/"),
        client.stat("/old"),
        client.stat("/old/child"),
    ];
    client.exists("/old", true);
    let reply = client.call(op_code::MULTI, |body| {
        let body = header(body, op_code::SET_DATA, false).string("/old");
        let body = body.buffer(Some(b"new")).i32(-1);
        let body = create(header(body, op_code::CREATE, false), "/old/n", 2);
        let body = create(header(body, op_code::CREATE, false), "/a", 1);
        let body = header(body, op_code::DELETE, false);
        let body = body.string("/old/child").i32(-1);
        let body = header(body, op_code::CHECK, false).string("/old").i32(7);
        let body = create(header(body, op_code::CREATE, false), "/b", 0);
        header(body, -1, true)
    });
    assert_eq!(reply.error, 0);
    let mut expected = RecordWriter::new();
    for code in [0, 0, 0, 0, -103, -2] {
        expected = expected.i32(-1).bool(false).i32(code).i32(code);
    }
    let expected = expected.i32(-1).bool(true).i32(-1).finish();
    assert_eq!(reply.body, expected[4..]);
    let after = [
        client.stat("/"),
        client.stat("/old"),
        client.stat("/old/child"),
    ];
    assert_eq!(after, before);
    for path in ["/a", "/b", "/old/n0000000001"] {
        assert_eq!(client.exists(path, false).error, -101);
    }
    // The watch did not fire, and still waits.
    client.send(op_code::SET_DATA, |body| {
        body.string("/old").buffer(Some(b"new")).i32(0)
    });
    assert_eq!(client.event(), (3, String::from("/old")));
    assert_eq!(client.reply().error, 0);
    let reply = client.create("/old/n", 2);
    let path = RecordReader::new(&reply.body).string("path").unwrap();
    assert_eq!(path, "/old/n0000000001", "no number was used up");
    let session = client.session;
    client.call(op_code::CLOSE_SESSION, |body| body);
    let mut client = open(&server);
    assert_ne!(client.session, session);
    assert_eq!(
        client.exists("/old/child", false).error,
        -101,
        "still owned"
    );
}

fn a_multi_with_an_unknown_operation_is_refused(server: Server) {
    let mut client = open(&server);
    let reply = client.call(op_code::MULTI, |body| {
        let body = create(header(body, op_code::CREATE, false), "/a", 0);
        let body = create(header(body, 15, false), "/b", 0);
        header(body, -1, true)
    });
    assert_eq!((reply.error, reply.body), (-5, vec![]));
    assert_eq!(client.exists("/a", false).error, -101);
}

fn an_event_comes_before_the_reply_of_the_write_that_caused_it(server: Server) {
    let mut client = open(&server);
    let mut other = open(&server);
    client.create("/a", 0);
    for one in [&mut client, &mut other] {
        one.exists("/a", true);
        one.call(op_code::GET_DATA, |body| body.string("/a").bool(true));
        one.call(op_code::GET_CHILDREN, |body| body.string("/a").bool(true));
        assert_eq!(one.exists("/a/b", true).error, -101);
    }
    client.send(op_code::SET_DATA, |body| {
        body.string("/a").buffer(Some(b"")).i32(-1)
    });
    assert_eq!(client.event(), (3, String::from("/a")));
    assert_eq!(client.reply().error, 0);
    client.send(op_code::CREATE, |body| create(body, "/a/b", 0));
    assert_eq!(client.event(), (1, String::from("/a/b")));
    assert_eq!(client.event(), (4, String::from("/a")));
    assert_eq!(client.reply().error, 0);
    assert_eq!(client.set("/a", b"", -1).error, 0, "each fires once");
    assert_eq!(other.event(), (3, String::from("/a")));
    assert_eq!(other.event(), (1, String::from("/a/b")));
    assert_eq!(other.event(), (4, String::from("/a")));
    assert_eq!(other.exists("/a", false).error, 0);
}

fn a_deletion_is_told_once_to_whoever_watches_both_ways(server: Server) {
    let mut client = open(&server);
    client.create("/a", 0);
    client.create("/a/b", 0);
    client.exists("/a/b", true);
    for path in ["/a/b", "/a"] {
        client.call(op_code::GET_CHILDREN, |body| body.string(path).bool(true));
    }
    client.send(op_code::DELETE, |body| body.string("/a/b").i32(-1));
    assert_eq!(client.event(), (2, String::from("/a/b")));
    assert_eq!(client.event(), (4, String::from("/a")));
    assert_eq!(client.reply().error, 0);
}

fn watches_that_are_set_again_tell_what_they_missed(server: Server) {
    let mut client = open(&server);
    for path in ["/set", "/gone", "/quiet", "/parent", "/again"] {
        client.create(path, 0);
    }
    let seen = client.exists("/", false).zxid;
    client.set("/set", b"", -1);
    client.delete("/gone", -1);
    client.create("/parent/child", 0);
    client.delete("/again", -1);
    client.create("/again", 0);
    client.create("/new", 0);
    let paths = |texts: &[&str]| {
        texts
            .iter()
            .map(|text| (*text).to_owned())
            .collect::<Vec<_>>()
    };
    client.send(op_code::SET_WATCHES, |body| {
        body.i64(seen)
            .strings(paths(&["/set", "/gone", "/quiet", "/again"]).iter())
            .strings(paths(&["/new", "/missing"]).iter())
            .strings(paths(&["/parent", "/gone", "/quiet"]).iter())
    });
    for (kind, path) in [
        (3, "/set"),
        (2, "/gone"),
        (3, "/again"),
        (1, "/new"),
        (4, "/parent"),
        (2, "/gone"),
    ] {
        assert_eq!(client.event(), (kind, path.to_owned()));
    }
    let reply = client.reply();
    assert_eq!((reply.error, reply.body), (0, vec![]));
    client.send(op_code::SET_DATA, |body| {
        body.string("/quiet").buffer(None).i32(-1)
    });
    assert_eq!(client.event(), (3, String::from("/quiet")));
    assert_eq!(client.reply().error, 0);
    client.send(op_code::CREATE, |body| create(body, "/missing", 0));
    assert_eq!(client.event(), (1, String::from("/missing")));
    assert_eq!(client.reply().error, 0);
}

fn a_session_is_taken_over_with_its_password_only(server: Server) {
    let mut client = open(&server);
    client.create("/e", 1);
    let session = client.session;
    drop(client);
    let address = server.connect_string();
    assert!(WireClient::resume(&address, session, 0, &[1; 16]).is_none());
    assert!(WireClient::resume(&address, session, 0, &[]).is_none());
    assert!(WireClient::resume(&address, 12345, 0, &password_of(12345)).is_none());
    let mut back = WireClient::resume(&address, session, 0, &password_of(session)).unwrap();
    assert_eq!(back.session, session);
    assert_eq!(back.stat("/e").ephemeral_owner, Some(session));
}

fn a_session_has_one_connection_the_last_one(server: Server) {
    let mut first = open(&server);
    let password = password_of(first.session);
    let mut second =
        WireClient::resume(&server.connect_string(), first.session, 0, &password).unwrap();
    first.expect_end();
    assert_eq!(second.create("/e", 1).error, 0);
    assert_eq!(second.stat("/e").ephemeral_owner, Some(first.session));
}

fn closing_a_session_answers_and_hangs_up(server: Server) {
    let mut other = open(&server);
    let mut client = open(&server);
    client.create("/e", 1);
    assert_eq!(other.exists("/e", true).error, 0);
    let reply = client.call(op_code::CLOSE_SESSION, |body| body);
    assert_eq!((reply.error, reply.body), (0, vec![]));
    client.expect_end();
    assert_eq!(other.event(), (2, String::from("/e")));
    assert_eq!(other.exists("/e", false).error, -101);
    let password = password_of(client.session);
    let back = WireClient::resume(&server.connect_string(), client.session, 0, &password);
    assert!(back.is_none());
}

fn who_has_seen_the_future_is_sent_away(server: Server) {
    let client = open(&server);
    let password = password_of(client.session);
    let request = connect_request(client.session, i64::MAX, 30_000, &password);
    let mut from_the_future = WireClient::open(&server.connect_string());
    from_the_future.socket = socket(&server.connect_string());
    from_the_future.socket.write_all(&request).unwrap();
    from_the_future.expect_end();
}

fn any_digest_is_accepted_and_another_scheme_is_not(server: Server) {
    let mut client = open(&server);
    let auth = |scheme: &'static str| {
        move |body: RecordWriter| body.i32(0).string(scheme).buffer(Some(b"user:secret"))
    };
    let reply = client.call(op_code::AUTH, auth("digest"));
    assert_eq!((reply.error, reply.body), (0, vec![]));
    assert_eq!(client.call(op_code::AUTH, auth("unheard-of")).error, -115);
    client.expect_end();
}

fn four_letters_are_answered(server: Server) {
    let address = server.connect_string();
    let mut client = open(&server);
    client.create("/e", 1);
    assert_eq!(ask(&address, "ruok"), "imok");
    for word in ["srvr", "stat"] {
        let answer = ask(&address, word);
        assert!(answer.starts_with("Zookeeper version: 3.4.6"), "{answer}");
        let line = |text: &str| answer.lines().any(|line| line == text);
        assert!(
            line("Mode: standalone") && line("Node count: 5"),
            "{answer}"
        );
        assert!(line("Zxid: 0x2"), "{answer}");
        assert_eq!(answer.contains("Clients:\n /127.0.0.1:"), word == "stat");
    }
    assert!(ask(&address, "cons").contains("/127.0.0.1:"));
    let dump = ask(&address, "dump");
    let owner = format!(
        "Sessions with Ephemerals (1):\n{:#x}:\n\t/e\n",
        client.session
    );
    assert!(dump.contains(&owner), "{dump}");
}

fn an_old_client_is_not_told_of_read_only_servers(server: Server) {
    let mut client = open(&server);
    client.socket = socket(&server.connect_string());
    let request = connect_request(0, 0, 30_000, &[0; 16]);
    let body = &request[4..request.len() - 1];
    client.socket.write_all(&44_i32.to_be_bytes()).unwrap();
    client.socket.write_all(body).unwrap();
    assert_eq!(client.frame().unwrap().len(), 36);
}

fn a_session_timeout_is_negotiated(server: Server) {
    for (wanted, granted) in [(1, 1000), (-5, 1000), (4321, 4321), (i32::MAX, 60_000)] {
        let mut client = open(&server);
        client.socket = socket(&server.connect_string());
        let request = connect_request(0, 0, wanted, &[0; 16]);
        client.socket.write_all(&request).unwrap();
        let answer = client.frame().unwrap();
        let mut reader = RecordReader::new(&answer[4..]);
        assert_eq!(reader.i32("timeout").unwrap(), granted);
    }
}
