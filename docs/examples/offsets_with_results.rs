//! Counts the messages of a topic by their values, each exactly once, whatever crashes in between.
//!
//! The counts of a partition and its offset are in one file, which is replaced by one rename: either both are new or
//! both are old. The connector asks this store of the application's own where to begin; commits have nothing to do.
//!
//! ```sh
//! kzc dev-cluster --topic orders:2                # prints what to put for HOST:PORT
//! cargo run --example offsets_with_results -- HOST:PORT orders target/counts
//! ```
//!
//! Kill it at any moment and start it again; start it twice, and the two share the partitions. What a file system cannot
//! do is to check who else has written and to rename, both at once: a process that stands still just between the two for
//! longer than its ZooKeeper session can overwrite the file of the next owner. A database would do both in one transaction.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::error::Error;
use std::fs;
use std::io;
use std::io::ErrorKind;
use std::io::Write;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kafka_zk_consumer::AutoOffsetReset;
use kafka_zk_consumer::ConsumerConfig;
use kafka_zk_consumer::ConsumerConnector;
use kafka_zk_consumer::Message;
use kafka_zk_consumer::MessageStream;
use kafka_zk_consumer::OffsetCall;
use kafka_zk_consumer::OffsetStore;
use kafka_zk_consumer::OffsetStoreError;
use kafka_zk_consumer::StreamError;
use kafka_zk_consumer::TopicPartition;

/// Most messages between two renames.
const BATCH: usize = 100;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.as_slice() {
        [zookeeper, topic, folder] => run(zookeeper, topic, Path::new(folder)),
        _ => Err("usage: offsets_with_results ZOOKEEPER TOPIC FOLDER".into()),
    }
}

/// Counts for ever.
pub(crate) fn run(zookeeper: &str, topic: &str, folder: &Path) -> Result<(), Box<dyn Error>> {
    let config = ConsumerConfig::builder()
        .zookeeper_connect(zookeeper)
        .group_id("offsets-with-results")
        .auto_offset_reset(AutoOffsetReset::Smallest)
        .auto_commit_enable(false)
        .build()?;
    let files = Arc::new(CountFiles::new(folder)?);
    let connector = ConsumerConnector::connect_with_offset_store(config, Arc::clone(&files))?;
    let streams = connector.create_message_streams([(topic, 1)])?;
    for mut stream in streams.into_values().flatten() {
        while let Some(batch) = next_batch(&mut stream)? {
            count(&batch, &connector, &files)?;
        }
    }
    Ok(())
}

/// Waits for a message, and takes with it what is there besides. `None` at the end of the stream.
fn next_batch(stream: &mut MessageStream) -> Result<Option<Vec<Message>>, StreamError> {
    let first = match stream.next() {
        None => return Ok(None),
        Some(first) => first?,
    };
    let mut batch = vec![first];
    while batch.len() < BATCH {
        match stream.next_timeout(Duration::from_millis(10)) {
            None | Some(Err(StreamError::Timeout)) => break,
            Some(message) => batch.push(message?),
        }
    }
    Ok(Some(batch))
}

/// Adds a batch to the files of its partitions.
fn count(
    batch: &[Message],
    connector: &ConsumerConnector,
    files: &CountFiles,
) -> Result<(), Box<dyn Error>> {
    let mut changed: BTreeMap<TopicPartition, (i64, Counts)> = BTreeMap::new();
    for message in batch {
        let partition = message.topic_partition();
        if !changed.contains_key(partition) {
            let counts = files.read(partition)?;
            changed.insert(partition.clone(), (counts.next, counts));
        }
        if let Some((_, counts)) = changed.get_mut(partition) {
            counts.add(message);
        }
    }
    let owned = connector.owned_partitions();
    for (partition, (read_at, counts)) in changed {
        // What a rebalance has taken away meanwhile is counted by its next owner, from the file as it is.
        if owned.contains(&partition) {
            files.replace(&partition, read_at, &counts)?;
            let (next, values) = (counts.next, counts.values().len());
            println!("{partition}: {values} values before offset {next}");
        }
    }
    Ok(())
}

/// How often each value was seen, and the next offset to read.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    next: i64,
    values: BTreeMap<String, u64>,
}

impl Counts {
    fn add(&mut self, message: &Message) {
        // Seen already: the owner before has written after we had asked where to begin.
        if message.offset() < self.next {
            return;
        }
        let value = String::from_utf8_lossy(message.value().unwrap_or_default());
        *self
            .values
            .entry(value.escape_debug().to_string())
            .or_default() += 1;
        self.next = message.offset() + 1;
    }

    /// How often each value was seen.
    pub(crate) fn values(&self) -> &BTreeMap<String, u64> {
        &self.values
    }
}

/// A file for each partition: a line with the next offset, then one for each value, with how often it was seen.
pub(crate) struct CountFiles {
    folder: PathBuf,
}

impl CountFiles {
    /// In a folder, which is made if need be.
    pub(crate) fn new(folder: &Path) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let folder = folder.to_owned();
        Ok(Self { folder })
    }

    fn path(&self, partition: &TopicPartition, ending: &str) -> PathBuf {
        let (topic, number) = (partition.topic(), partition.partition());
        self.folder.join(format!("{topic}-{number}.{ending}"))
    }

    /// What was counted so far: nothing, if there is no file.
    pub(crate) fn read(&self, partition: &TopicPartition) -> io::Result<Counts> {
        let text = match fs::read_to_string(self.path(partition, "counts")) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Counts::default()),
            Err(error) => return Err(error),
        };
        let damaged = || io::Error::new(ErrorKind::InvalidData, format!("{partition}: {text:.80}"));
        let mut lines = text.lines();
        let next = lines.next().and_then(|line| line.parse().ok());
        let mut counts = Counts {
            next: next.ok_or_else(damaged)?,
            values: BTreeMap::new(),
        };
        for line in lines {
            let (count, value) = line.split_once('\t').ok_or_else(damaged)?;
            let count = count.parse().map_err(|_| damaged())?;
            counts.values.insert(value.to_owned(), count);
        }
        Ok(counts)
    }

    /// Replaces counts and offset at once, if the file still is at the offset at which it was read.
    fn replace(&self, partition: &TopicPartition, read_at: i64, counts: &Counts) -> io::Result<()> {
        let found = self.read(partition)?.next;
        if found != read_at {
            let reason =
                format!("{partition} is at {found} and not at {read_at}: it has another owner");
            return Err(io::Error::other(reason));
        }
        // Each process writes a file of its own.
        let new = self.path(partition, &format!("{}.new", std::process::id()));
        let mut file = fs::File::create(&new)?;
        let mut text = format!("{}\n", counts.next);
        for (value, count) in &counts.values {
            text += &format!("{count}\t{value}\n");
        }
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, self.path(partition, "counts"))
    }
}

impl OffsetStore for CountFiles {
    fn fetch(
        &self,
        partitions: &[TopicPartition],
        _call: &OffsetCall,
    ) -> Result<HashMap<TopicPartition, i64>, OffsetStoreError> {
        let mut offsets = HashMap::new();
        for partition in partitions {
            let next = self.read(partition)?.next;
            // 0: nothing was counted, and `auto.offset.reset` says where to begin.
            if next > 0 {
                offsets.insert(partition.clone(), next);
            }
        }
        Ok(offsets)
    }

    /// Offsets are stored with the counts.
    fn commit(
        &self,
        offsets: &[(TopicPartition, i64)],
        _call: &OffsetCall,
    ) -> Result<Vec<Result<(), OffsetStoreError>>, OffsetStoreError> {
        Ok(offsets.iter().map(|_| Ok(())).collect())
    }
}
