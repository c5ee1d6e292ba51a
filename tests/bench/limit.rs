//! The practical limit: what one thread with one socket can read and check, and nothing else.
//!
//! Written by hand on a plain socket, without the crate: buffers are used again, fetches are as large as
//! those of the others, and the next one is asked for before the messages of this one are checked, so that
//! the broker works meanwhile.

use std::io::Read;
use std::io::Write;
use std::net::TcpStream;
use std::time::Instant;

use socket2::SockRef;

use crate::FETCH_SIZE;
use crate::RECEIVE_BUFFER;
use crate::report::Reading;

/// Offset and size before each message.
const FRAMING: usize = 12;

/// Checksum, magic, attributes, length of the null key, length of the value.
const HEADER: usize = 14;

const SNAPPY: u8 = 2;

/// Magic and versions of the xerial framing.
const XERIAL_HEADER: usize = 16;

/// Reads `messages` messages of all partitions from their first offset on.
pub(crate) fn read(address: &str, topic: &str, partitions: usize, messages: u64) -> Reading {
    let mut socket = TcpStream::connect(address).expect("connect to the broker");
    socket.set_nodelay(true).expect("TCP_NODELAY");
    SockRef::from(&socket)
        .set_recv_buffer_size(RECEIVE_BUFFER)
        .expect("SO_RCVBUF");
    let mut next_offsets = vec![0; partitions];
    let (mut answer, mut sets, mut unpacked) = (Vec::new(), Vec::new(), Vec::new());
    let mut decoder = snap::raw::Decoder::new();
    let mut read = 0;
    let start = Instant::now();
    ask(&mut socket, topic, &next_offsets);
    while read < messages {
        let size = receive(&mut socket, &mut answer);
        outline(&answer[..size], &mut next_offsets, &mut sets);
        ask(&mut socket, topic, &next_offsets);
        for (from, to) in &sets {
            read += check(&answer[*from..*to], &mut decoder, &mut unpacked);
        }
    }
    let elapsed = start.elapsed().as_secs_f64();
    assert_eq!(read, messages, "messages of {topic}");
    let read = u32::try_from(read).expect("fewer than 2^32 messages");
    Reading {
        messages_per_second: f64::from(read) / elapsed,
        cpu_seconds_per_message: None,
        peak_resident_bytes: None,
    }
}

/// Version 0 of a fetch request.
fn ask(socket: &mut TcpStream, topic: &str, next_offsets: &[i64]) {
    let mut frame = vec![0; 4];
    frame.extend_from_slice(&1_i16.to_be_bytes());
    frame.extend_from_slice(&[0, 0, 0, 0, 0, 0, 0, 0]);
    frame.extend_from_slice(&(-1_i32).to_be_bytes());
    frame.extend_from_slice(&100_i32.to_be_bytes());
    frame.extend_from_slice(&1_i32.to_be_bytes());
    frame.extend_from_slice(&1_i32.to_be_bytes());
    frame.extend_from_slice(
        &i16::try_from(topic.len())
            .expect("short name")
            .to_be_bytes(),
    );
    frame.extend_from_slice(topic.as_bytes());
    frame.extend_from_slice(&wire(next_offsets.len()));
    for (partition, offset) in next_offsets.iter().enumerate() {
        frame.extend_from_slice(&wire(partition));
        frame.extend_from_slice(&offset.to_be_bytes());
        frame.extend_from_slice(&wire(FETCH_SIZE));
    }
    let size = wire(frame.len() - 4);
    frame[..4].copy_from_slice(&size);
    socket.write_all(&frame).expect("send a request");
}

/// Reads one frame into `answer`, which never shrinks, and returns its size.
fn receive(socket: &mut TcpStream, answer: &mut Vec<u8>) -> usize {
    let mut size = [0; 4];
    socket.read_exact(&mut size).expect("read a size");
    let size = length(&size, 0);
    if answer.len() < size {
        answer.resize(size, 0);
    }
    socket
        .read_exact(&mut answer[..size])
        .expect("read an answer");
    size
}

/// Finds the whole entries of each set, and moves the offsets behind them.
fn outline(answer: &[u8], next_offsets: &mut [i64], sets: &mut Vec<(usize, usize)>) {
    sets.clear();
    // Correlation id, one topic, its name, its partitions.
    let name = usize::from(u16::from_be_bytes([answer[8], answer[9]]));
    let mut at = 10 + name + 4;
    while at < answer.len() {
        let partition = length(answer, at);
        assert_eq!(
            answer[at + 4..at + 6],
            [0, 0],
            "error of partition {partition}"
        );
        let size = length(answer, at + 14);
        let start = at + 18;
        at = start + size;
        let mut end = start;
        while at - end >= FRAMING {
            let entry = FRAMING + length(answer, end + 8);
            if entry > at - end {
                break;
            }
            next_offsets[partition] = offset(answer, end) + 1;
            end += entry;
        }
        sets.push((start, end));
    }
}

/// Checks all checksums of a set of whole entries, compressed ones included, and counts the messages.
fn check(set: &[u8], decoder: &mut snap::raw::Decoder, unpacked: &mut Vec<u8>) -> u64 {
    let mut count = 0;
    let mut at = 0;
    while at < set.len() {
        let message = &set[at + FRAMING..at + FRAMING + length(set, at + 8)];
        at += FRAMING + message.len();
        let stored = u32::from_be_bytes([message[0], message[1], message[2], message[3]]);
        assert_eq!(crc32fast::hash(&message[4..]), stored, "checksum");
        if message[5] & 7 == SNAPPY {
            let size = unpack(&message[HEADER..], decoder, unpacked);
            count += check(&unpacked[..size], decoder, &mut Vec::new());
        } else {
            count += 1;
        }
    }
    count
}

/// Unpacks the xerial framing into `unpacked`, which never shrinks, and returns how much there is.
fn unpack(framed: &[u8], decoder: &mut snap::raw::Decoder, unpacked: &mut Vec<u8>) -> usize {
    let mut at = XERIAL_HEADER;
    let mut size = 0;
    while at < framed.len() {
        let block = &framed[at + 4..at + 4 + length(framed, at)];
        at += 4 + block.len();
        let end = size + snap::raw::decompress_len(block).expect("size of a block");
        if unpacked.len() < end {
            unpacked.resize(end, 0);
        }
        decoder
            .decompress(block, &mut unpacked[size..end])
            .expect("a snappy block");
        size = end;
    }
    size
}

fn wire(number: usize) -> [u8; 4] {
    u32::try_from(number).expect("fits").to_be_bytes()
}

fn length(bytes: &[u8], at: usize) -> usize {
    let field = bytes[at..at + 4].try_into().expect("four bytes");
    usize::try_from(u32::from_be_bytes(field)).expect("fits")
}

fn offset(bytes: &[u8], at: usize) -> i64 {
    i64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}
