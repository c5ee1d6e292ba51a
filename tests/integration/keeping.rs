//! Clusters that keep their data in a folder, over several lives.

use std::fs;
use std::path::Path;
use std::path::PathBuf;

use kafka_zk_consumer::MessageStream;
use kafka_zk_consumer::TopicPartition;
use kafka_zk_consumer::embedded::EmbeddedCluster;
use kafka_zk_consumer::protocol::Codec;
use kafka_zk_consumer::protocol::MessageSetBuilder;
use kafka_zk_consumer::protocol::RequiredAcks;

use crate::reading::Reading;
use crate::reading::config;
use crate::reading::connect;
use crate::reading::next;
use crate::reading::numbered;
use crate::reading::produce_numbers;
use crate::reading::quick_cluster;
use crate::reading::streams;
use crate::reading::value;

fn start(folder: &Path, brokers: i32) -> EmbeddedCluster {
    quick_cluster()
        .brokers(brokers)
        .data_dir(folder)
        .topic("orders", 2, 2)
        .offsets_topic(4, 2)
        .log_segment_bytes(500)
        .start()
        .unwrap()
}

fn read(stream: &mut MessageStream, numbers: std::ops::Range<i32>) {
    for number in numbers {
        assert_eq!(value(&next(stream).unwrap()), numbered(0, number));
    }
    stream.mark_consumed();
}

/// The file that is written to of partition 0.
fn last_segment(folder: &Path) -> PathBuf {
    let files = fs::read_dir(folder.join("logs/orders/0")).unwrap();
    let files = files.map(|file| file.unwrap().path());
    files.max().unwrap()
}

#[test]
fn topics_messages_and_partitions_outlive_the_cluster() {
    let folder = tempfile::tempdir().unwrap();
    let first = start(folder.path(), 2);
    produce_numbers(&first, "orders", 2, 0..50);
    first.create_topic("later", 1, 1).unwrap();
    first.create_topic("deleted", 1, 1).unwrap();
    first.produce("deleted", 0, ["gone"]).unwrap();
    first.delete_topic("deleted").unwrap();
    first.add_partitions("orders", 3).unwrap();
    first.set_log_start("orders", 2, 7).unwrap();
    first.kill(0).unwrap();
    let before = first.describe();
    drop(first);
    let second = start(folder.path(), 2);
    for partition in &before.partitions {
        let of = &partition.topic_partition;
        let after = second.describe();
        let after = after.partition(of.topic(), of.partition()).unwrap();
        assert_eq!(after.replicas, partition.replicas, "{of}");
        assert_eq!(after.isr, after.replicas, "{of}");
        let bounds = |p: &kafka_zk_consumer::embedded::PartitionDescription| {
            (p.log_start, p.log_end, p.bytes)
        };
        assert_eq!(bounds(after), bounds(partition), "{of}");
        assert_eq!(after.high_watermark, after.log_end, "{of}");
    }
    assert_eq!(before.partitions.len(), second.describe().partitions.len());
    second.create_topic("deleted", 1, 1).unwrap();
    assert_eq!(
        second.describe().partition("deleted", 0).unwrap().log_end,
        0
    );
    produce_numbers(&second, "orders", 2, 50..60);
    let connector = connect(config(&second, "g"));
    let mut reading = Reading::start(streams(&connector, "orders", 1));
    reading.until_numbers(2, 60);
    connector.shutdown();
    reading.assert_once_in_order(2, 60);
}

#[test]
fn offsets_in_zookeeper_outlive_the_cluster() {
    let folder = tempfile::tempdir().unwrap();
    for life in 0..3 {
        let cluster = start(folder.path(), 2);
        produce_numbers(&cluster, "orders", 1, life * 20..(life + 1) * 20);
        let connector = connect(config(&cluster, "g"));
        let mut streams = streams(&connector, "orders", 1);
        let first = (life * 20 - 5).max(0);
        read(&mut streams[0], first..(life + 1) * 20 - 5);
        connector.commit_offsets().unwrap();
        connector.shutdown();
    }
}

#[test]
fn compressed_messages_outlive_the_cluster() {
    let folder = tempfile::tempdir().unwrap();
    let first = start(folder.path(), 2);
    let of = TopicPartition::new("orders", 0);
    let mut number = 0;
    for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4] {
        let mut set = MessageSetBuilder::compressed(codec);
        for _ in 0..10 {
            let value = numbered(0, number);
            set.message(0, None, Some(value.as_bytes())).unwrap();
            number += 1;
        }
        let set = set.build().unwrap();
        first.produce_set(&of, &set, RequiredAcks::All).unwrap();
    }
    drop(first);
    let second = start(folder.path(), 2);
    let connector = connect(config(&second, "g"));
    read(&mut streams(&connector, "orders", 1)[0], 0..30);
    connector.shutdown();
}

#[test]
fn a_write_that_was_cut_in_the_middle_costs_that_message_alone() {
    let folder = tempfile::tempdir().unwrap();
    let first = start(folder.path(), 2);
    produce_numbers(&first, "orders", 1, 0..50);
    drop(first);
    let last = last_segment(folder.path());
    let bytes = fs::read(&last).unwrap();
    fs::write(&last, &bytes[..bytes.len() - 3]).unwrap();
    let journal = folder.path().join("zookeeper/tree.journal");
    let mut bytes = fs::read(&journal).unwrap();
    bytes.extend_from_slice(&[0, 0, 1, 0, 7]);
    fs::write(&journal, bytes).unwrap();
    let second = start(folder.path(), 2);
    assert_eq!(
        second.describe().partition("orders", 0).unwrap().log_end,
        49
    );
    produce_numbers(&second, "orders", 1, 49..60);
    drop(second);
    let third = start(folder.path(), 2);
    let connector = connect(config(&third, "g"));
    read(&mut streams(&connector, "orders", 1)[0], 0..60);
    connector.shutdown();
}

#[test]
fn a_cluster_that_comes_back_with_fewer_brokers_serves_what_they_have() {
    let folder = tempfile::tempdir().unwrap();
    let first = start(folder.path(), 2);
    produce_numbers(&first, "orders", 2, 0..10);
    first.create_assigned_topic("alone", &[vec![1]]).unwrap();
    first.produce("alone", 0, ["x"]).unwrap();
    drop(first);
    let second = start(folder.path(), 1);
    produce_numbers(&second, "orders", 2, 10..20);
    let description = second.describe();
    assert_eq!(description.partition("orders", 1).unwrap().isr, [0]);
    assert_eq!(description.partition("alone", 0).unwrap().leader, None);
    drop(second);
    let third = start(folder.path(), 2);
    third.produce("alone", 0, ["y"]).unwrap();
    assert_eq!(third.describe().partition("alone", 0).unwrap().log_end, 2);
    let end = third.describe().partition("orders", 1).unwrap().log_end;
    assert_eq!(end, 20);
}

#[test]
fn a_folder_that_cannot_be_used_is_told_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "x").unwrap();
    let error = EmbeddedCluster::builder().data_dir(&file).start();
    let error = error.unwrap_err().to_string();
    assert!(error.contains("file/zookeeper"), "{error}");
}
