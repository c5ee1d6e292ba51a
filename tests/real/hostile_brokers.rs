//! A broker that hangs or answers with nonsense costs its own partitions and nothing else.

use std::io;
use std::io::Read;
use std::io::Write;
use std::net::Shutdown;
use std::net::TcpListener;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::Weak;
use std::thread;
use std::time::Duration;

use kafka_zk_consumer::Event;
use serde_json::json;
use socket2::SockRef;

use crate::scenarios::topics_support::LIMIT;
use crate::scenarios::topics_support::config;
use crate::scenarios::topics_support::join;
use crate::scenarios::topics_support::shut_down;
use crate::scenarios::topics_support::timed;
use crate::support::BrokerConnection;
use crate::support::Cluster;
use crate::support::KafkaVersion;
use crate::support::RealCluster;
use crate::support::wait_until;

const ID: i32 = 77;
const CLIENT: &str = "victim";

#[test]
fn a_leader_that_hangs_or_answers_nonsense_costs_its_own_partition_only() {
    for version in KafkaVersion::BY_DEFAULT {
        let mut cluster = RealCluster::start(version, 1);
        let fake = FakeBroker::start();
        let shell = cluster.shell();
        let registration = json!({"version": 1, "host": "127.0.0.1", "port": fake.port,
            "jmx_port": -1, "timestamp": "1"});
        shell
            .create_ephemeral(&format!("/brokers/ids/{ID}"), &registration.to_string())
            .unwrap();
        let assignment = json!({"version": 1, "partitions": {"0": [0], "1": [ID]}});
        shell
            .put("/config/topics/orders", r#"{"version":1,"config":{}}"#)
            .unwrap();
        shell
            .create("/brokers/topics/orders", &assignment.to_string())
            .unwrap();
        let address = cluster.broker(0).address();
        wait_until(LIMIT, "the real broker to believe in the false one", || {
            BrokerConnection::open(&address)
                .and_then(|mut broker| broker.leaders("orders"))
                .is_ok_and(|leaders| leaders == [(0, 0), (1, ID)])
        });

        let settings = config(&cluster.connect_string(), "g")
            .client_id(CLIENT)
            .socket_timeout(Duration::from_secs(1));
        let (connector, reader) = join(settings, &["orders"]);
        let events = connector.events();
        let mut leader = BrokerConnection::open(&address).unwrap();
        // A broker that has just come to lead a partition may refuse it once.
        leader.produce("orders", 0, &[(None, b"0")]).unwrap();
        reader.wait_for_numbers("orders", 0, 0..1);
        std::iter::from_fn(|| events.try_next()).for_each(drop);
        let mut sent = 1;
        for (manner, expected) in Manner::ALL {
            fake.behave(manner);
            let ((), took) = timed(|| {
                wait_until(
                    LIMIT,
                    &format!("the news that a broker does {manner:?}"),
                    || {
                        // The other partition goes on all the time.
                        let value = sent.to_string();
                        leader
                            .produce("orders", 0, &[(None, value.as_bytes())])
                            .unwrap();
                        sent += 1;
                        reader.wait_for_numbers("orders", 0, 0..sent);
                        let events = std::iter::from_fn(|| events.try_next());
                        let told = events
                            .filter(|event| tells(event, fake.port, expected))
                            .count();
                        told > 0 && fake.asked() > 2
                    },
                );
            });
            assert!(took < Duration::from_secs(15), "{manner:?} took {took:?}");
            assert!(reader.values("orders", 1).is_empty());
        }
        fake.behave(Manner::Hang);
        wait_until(LIMIT, "a request that is not answered", || fake.asked() > 0);
        assert_eq!(reader.errors(), []);
        shut_down(&connector);
        reader.finish();
    }
}

/// Whether an event says this of the false broker.
fn tells(event: &Event, port: u16, expected: &str) -> bool {
    match event {
        Event::FetchFailed {
            address,
            partitions,
            reason,
        } => {
            assert_eq!(address.port, port, "only the false broker fails: {event}");
            assert_eq!(partitions.len(), 1, "{event}");
            assert_eq!(partitions[0].to_string(), "orders/1");
            reason.contains(expected)
        }
        _ => false,
    }
}

/// How a false broker treats a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    Hang,
    Reset,
    Close,
    HalfFrame,
    WrongCorrelationId,
    HugeLength,
    NegativeLength,
    TooShort,
    Nonsense,
    HugeArray,
}

impl Manner {
    /// Each with a part of what is told of it.
    const ALL: [(Self, &str); 10] = [
        (Self::Reset, "reset"),
        (Self::Close, "lost broker"),
        (Self::HalfFrame, "lost broker"),
        (Self::WrongCorrelationId, "unusable answer"),
        (Self::HugeLength, "unusable answer"),
        (Self::NegativeLength, "unusable answer"),
        (Self::TooShort, "unusable answer"),
        (Self::Nonsense, "unusable answer"),
        (Self::HugeArray, "unusable answer"),
        (Self::Hang, "no complete answer in time"),
    ];

    /// Answers one request; an error ends the connection.
    fn answer(self, mut socket: &TcpStream, correlation_id: i32) -> io::Result<()> {
        let framed = |body: &[u8]| {
            let length = i32::try_from(body.len() + 4).unwrap();
            [&length.to_be_bytes(), &correlation_id.to_be_bytes(), body].concat()
        };
        match self {
            Self::Hang => return Ok(()),
            Self::Reset => {
                SockRef::from(socket).set_linger(Some(Duration::ZERO))?;
                return Err(io::ErrorKind::ConnectionReset.into());
            }
            Self::Close => return Err(io::ErrorKind::UnexpectedEof.into()),
            Self::HalfFrame => {
                // Ends within the name of the first topic.
                let whole = framed(&[0, 0, 0, 1, 0, 6, b'o', b'r', b'd', b'e', b'r', b's']);
                socket.write_all(&whole[..whole.len() - 3])?;
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            Self::WrongCorrelationId => {
                let mut whole = framed(&[0; 4]);
                whole[4..8].copy_from_slice(&(correlation_id + 1).to_be_bytes());
                socket.write_all(&whole)?;
            }
            Self::HugeLength => {
                socket
                    .write_all(&[i32::MAX.to_be_bytes(), correlation_id.to_be_bytes()].concat())?;
                socket.write_all(&[0x7f; 100])?;
            }
            Self::NegativeLength => socket.write_all(&(-5_i32).to_be_bytes())?,
            Self::TooShort => socket.write_all(&[0, 0, 0, 2, 0, 0])?,
            Self::Nonsense => socket.write_all(&framed(&[0xa5; 60]))?,
            Self::HugeArray => socket.write_all(&framed(&i32::MAX.to_be_bytes()))?,
        }
        Ok(())
    }
}

/// Listens like a broker. Its threads end with the test process.
struct FakeBroker {
    port: u16,
    state: Arc<Mutex<State>>,
}

struct State {
    manner: Manner,
    /// Requests of the consumer under test since the manner was chosen.
    asked: usize,
    sockets: Vec<Weak<TcpStream>>,
}

impl FakeBroker {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(Mutex::new(State {
            manner: Manner::Reset,
            asked: 0,
            sockets: Vec::new(),
        }));
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for socket in listener.incoming().map_while(Result::ok) {
                let (socket, state) = (Arc::new(socket), Arc::clone(&shared));
                state.lock().unwrap().sockets.push(Arc::downgrade(&socket));
                // Whatever ends it is what this is for.
                thread::spawn(move || serve(&socket, &state).ok());
            }
        });
        Self { port, state }
    }

    /// Treats all requests like this from now on, on new connections.
    fn behave(&self, manner: Manner) {
        let mut state = self.state.lock().unwrap();
        state.manner = manner;
        state.asked = 0;
        for socket in state.sockets.drain(..).filter_map(|it| it.upgrade()) {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    fn asked(&self) -> usize {
        self.state.lock().unwrap().asked
    }
}

fn serve(mut socket: &TcpStream, state: &Mutex<State>) -> io::Result<()> {
    loop {
        let mut length = [0; 4];
        socket.read_exact(&mut length)?;
        let mut request = Vec::new();
        let length = u64::from(u32::from_be_bytes(length));
        socket.take(length).read_to_end(&mut request)?;
        let correlation_id = request.get(4..8).ok_or(io::ErrorKind::UnexpectedEof)?;
        let correlation_id = i32::from_be_bytes(correlation_id.try_into().unwrap());
        let client = request.get(10..10 + CLIENT.len());
        let manner = {
            let mut state = state.lock().unwrap();
            state.asked += usize::from(client == Some(CLIENT.as_bytes()));
            state.manner
        };
        manner.answer(socket, correlation_id)?;
    }
}
