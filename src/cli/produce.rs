//! `kzc produce`.

use std::collections::BTreeMap;
use std::time::Duration;

use kafka_zk_consumer::BrokerAddress;
use kafka_zk_consumer::Error;
use kafka_zk_consumer::ErrorCode;
use kafka_zk_consumer::protocol::Codec;
use kafka_zk_consumer::protocol::MessageSet;
use kafka_zk_consumer::protocol::MessageSetBuilder;
use kafka_zk_consumer::protocol::RequiredAcks;
use kafka_zk_consumer::registered_brokers;

use crate::cli::ending::Ending;
use crate::cli::failure::Failure;
use crate::cli::key_partitioner::partition_for;
use crate::cli::line_batches::LineBatches;
use crate::cli::line_batches::Next;
use crate::cli::line_parser::Line;
use crate::cli::line_parser::LineParser;
use crate::cli::produce_arguments::ClusterArguments;
use crate::cli::produce_arguments::ProduceArguments;
use crate::cli::producer::Producer;
use crate::cli::run::say;

/// A batch is tried so often, which outlasts the session of a killed broker.
const ATTEMPTS: usize = 60;

const BACKOFF: Duration = Duration::from_millis(250);

const ZOOKEEPER_TIMEOUT: Duration = Duration::from_secs(6);

/// Lines on their way to the brokers.
struct Production<'a> {
    producer: Producer,
    codec: Option<Codec>,
    /// Messages without keys so far, which take turns.
    keyless: usize,
    produced: u64,
    ending: &'a Ending,
}

/// Writes the lines of standard input until it ends, or the run has to.
pub(crate) fn produce(arguments: &ProduceArguments, ending: &Ending) -> Result<(), Failure> {
    let brokers = brokers(&arguments.cluster)?;
    let mut production = Production {
        producer: Producer::new(&arguments.topic, brokers, RequiredAcks::Leader)
            .with_address_map(arguments.broker_address_map.clone().unwrap_or_default()),
        codec: arguments.compression.codec(),
        keyless: 0,
        produced: 0,
        ending,
    };
    production.await_partitions(&arguments.topic)?;
    let parser = LineParser::new(arguments.key_separator.clone());
    let mut batches = LineBatches::of_standard_input(parser)?;
    ending.defer_signals();
    let result = production.run(&mut batches);
    say(&format!(
        "Produced a total of {} messages",
        production.produced
    ));
    result
}

fn brokers(cluster: &ClusterArguments) -> Result<Vec<BrokerAddress>, Failure> {
    let Some(zookeeper) = &cluster.zookeeper else {
        return Ok(cluster.broker.clone());
    };
    let brokers = registered_brokers(zookeeper, ZOOKEEPER_TIMEOUT)
        .map_err(|error| Failure::library("looking for brokers", &error))?;
    if brokers.is_empty() {
        return Err(Failure::Runtime(format!(
            "no broker is registered in zookeeper {zookeeper}"
        )));
    }
    Ok(brokers.into_iter().map(|broker| broker.address).collect())
}

/// The brokers were asked about a topic in the way that has them create it, if they do so at all.
fn no_such(topic: &str) -> Failure {
    let in_dev_cluster = match cfg!(feature = "embedded") {
        true => format!(" (in a cluster of kzc by `kzc dev-cluster --topic {topic}:1`)"),
        false => String::new(),
    };
    Failure::Runtime(format!(
        "topic {topic} does not exist, and the brokers do not create it by themselves: create it \
         first{in_dev_cluster}, or let the brokers do so by auto.create.topics.enable=true"
    ))
}

impl Production<'_> {
    /// A topic that brokers create when they are asked about it takes its time.
    fn await_partitions(&mut self, topic: &str) -> Result<(), Failure> {
        for _ in 0..ATTEMPTS {
            let code = self
                .producer
                .refresh()
                .map_err(|error| Failure::runtime("looking for leaders", &error))?;
            match code {
                None if !self.producer.partitions().is_empty() => return Ok(()),
                None | Some(ErrorCode::LeaderNotAvailable) => {}
                Some(ErrorCode::UnknownTopicOrPartition) => return Err(no_such(topic)),
                Some(code) => return Err(Failure::Runtime(format!("topic {topic}: {code}"))),
            }
            if !self.ending.pause(BACKOFF) {
                break;
            }
        }
        Err(Failure::Runtime(format!("topic {topic} has no partitions")))
    }

    fn run(&mut self, batches: &mut LineBatches) -> Result<(), Failure> {
        while !self.ending.is_due() {
            match batches.next() {
                Next::Batch(batch) => self.send(batch)?,
                Next::Silence => {}
                Next::End => break,
                Next::Failed(failure) => return Err(failure),
            }
        }
        Ok(())
    }

    /// Sends until everything is acknowledged, or that is hopeless.
    fn send(&mut self, batch: Vec<Line>) -> Result<(), Failure> {
        let mut left = self.distribute(batch);
        let mut attempt = 1;
        loop {
            let sets = left
                .iter()
                .map(|(partition, lines)| Ok((*partition, self.message_set(lines)?)))
                .collect::<Result<_, Error>>()
                .map_err(|error| Failure::runtime("making messages", &error))?;
            let refusals = self.producer.send(sets);
            let refused: Vec<i32> = refusals.iter().map(|it| it.partition).collect();
            let is_refused = |partition: &i32| refused.contains(partition);
            for (_, lines) in left.iter().filter(|(partition, _)| !is_refused(partition)) {
                self.produced += u64::try_from(lines.len()).unwrap_or(u64::MAX);
            }
            left.retain(|partition, _| is_refused(partition));
            // A refusal that stays comes before those that may pass.
            let worst = refusals.into_iter().min_by_key(|it| it.is_retriable);
            let Some(refusal) = worst else {
                return Ok(());
            };
            let is_hopeless = !refusal.is_retriable || attempt == ATTEMPTS;
            if is_hopeless || !self.ending.pause(BACKOFF) {
                let lost: usize = left.values().map(Vec::len).sum();
                let text = format!("{lost} messages not appended: {}", refusal.reason);
                return Err(Failure::Runtime(text));
            }
            log::warn!("trying again: {}", refusal.reason);
            if let Err(error) = self.producer.refresh() {
                log::warn!("looking for leaders: {}", error.chain());
            }
            attempt += 1;
        }
    }

    fn distribute(&mut self, batch: Vec<Line>) -> BTreeMap<i32, Vec<Line>> {
        let partitions = self.producer.partitions();
        let mut distributed: BTreeMap<i32, Vec<Line>> = BTreeMap::new();
        for line in batch {
            let partition = match &line.key {
                Some(key) => partition_for(key, &partitions),
                None => {
                    let turn = self.keyless.checked_rem(partitions.len()).unwrap_or(0);
                    self.keyless = self.keyless.wrapping_add(1);
                    partitions.get(turn).copied()
                }
            };
            let partition = partition.unwrap_or(0);
            distributed.entry(partition).or_default().push(line);
        }
        distributed
    }

    fn message_set(&self, lines: &[Line]) -> Result<MessageSet, Error> {
        let mut builder = match self.codec {
            None => MessageSetBuilder::new(),
            Some(codec) => MessageSetBuilder::compressed(codec),
        };
        for (offset, line) in (0..).zip(lines) {
            builder.message(offset, line.key.as_deref(), Some(&line.value))?;
        }
        builder.build()
    }
}
