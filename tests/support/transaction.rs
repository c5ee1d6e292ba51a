//! Transactions (KIP-98) of a producer that does nothing else, on a cluster of one broker.

use std::io;
use std::time::Duration;

use super::broker_connection::BrokerConnection;
use super::broker_connection::Reply;
use super::broker_connection::check;
use super::broker_connection::put_string;
use super::broker_connection::put_topic;
use super::record_batch::RecordBatch;
use super::wait::wait_for;

const FIND_COORDINATOR: i16 = 10;
const INIT_PRODUCER_ID: i16 = 22;
const ADD_PARTITIONS_TO_TXN: i16 = 24;
const END_TXN: i16 = 26;

const LIMIT: Duration = Duration::from_secs(180);

/// One transaction of one batch; open until it is committed or aborted.
pub struct Transaction {
    broker: BrokerConnection,
    id: String,
    producer: i64,
}

impl Transaction {
    /// Appends a batch as the only one of a new transaction. `id` has to be one that nobody has used before.
    pub fn of(address: &str, id: &str, topic: &str, partition: i32, batch: &RecordBatch) -> Self {
        let mut broker = BrokerConnection::open(address).expect("connect to the broker");
        // The first of all transactions has to wait for the topic that keeps them.
        let producer = wait_for(LIMIT, "a coordinator of transactions", || {
            find_coordinator(&mut broker, id).ok()?;
            init_producer_id(&mut broker, id).ok()
        });
        let mut transaction = Self {
            broker,
            id: id.to_owned(),
            producer,
        };
        transaction
            .add_partition(topic, partition)
            .expect("add a partition to a transaction");
        let batch = batch.encode(Some(producer));
        transaction
            .broker
            .produce_batch(topic, partition, Some(id), &batch)
            .expect("append a batch of a transaction");
        transaction
    }

    pub fn commit(self) {
        self.end(true);
    }

    pub fn abort(self) {
        self.end(false);
    }

    /// The markers are written after the answer.
    fn end(mut self, is_committed: bool) {
        let mut body = self.head();
        body.push(u8::from(is_committed));
        self.broker
            .exchange(END_TXN, 0, &body)
            .and_then(error_after_throttle)
            .expect("end a transaction");
    }

    fn add_partition(&mut self, topic: &str, partition: i32) -> io::Result<()> {
        let mut body = self.head();
        put_topic(&mut body, topic, partition);
        let mut reply = self.broker.exchange(ADD_PARTITIONS_TO_TXN, 0, &body)?;
        reply.i32()?;
        reply.i32()?;
        reply.string()?;
        reply.i32()?;
        reply.i32()?;
        check(reply.i16()?)
    }

    /// Its id, and id and epoch of its producer.
    fn head(&self) -> Vec<u8> {
        let mut body = Vec::new();
        put_string(&mut body, &self.id);
        body.extend(self.producer.to_be_bytes());
        body.extend(0_i16.to_be_bytes());
        body
    }
}

fn find_coordinator(broker: &mut BrokerConnection, id: &str) -> io::Result<()> {
    let mut body = Vec::new();
    put_string(&mut body, id);
    body.push(1);
    error_after_throttle(broker.exchange(FIND_COORDINATOR, 1, &body)?)
}

fn init_producer_id(broker: &mut BrokerConnection, id: &str) -> io::Result<i64> {
    let mut body = Vec::new();
    put_string(&mut body, id);
    body.extend(60_000_i32.to_be_bytes());
    let mut reply = broker.exchange(INIT_PRODUCER_ID, 0, &body)?;
    reply.i32()?;
    check(reply.i16()?)?;
    reply.i64()
}

fn error_after_throttle(mut reply: Reply) -> io::Result<()> {
    reply.i32()?;
    check(reply.i16()?)
}
