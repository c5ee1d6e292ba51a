use std::io;
use std::net::Shutdown;
use std::net::TcpListener;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::thread;

use parking_lot::Mutex;

/// Stands between one client and its server, and can cut them off from each other.
pub(super) struct Proxy {
    port: u16,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    is_cut: AtomicBool,
    is_over: AtomicBool,
    /// Attempts that found the line cut.
    refused: AtomicUsize,
    connections: Mutex<Vec<TcpStream>>,
}

impl Proxy {
    pub(super) fn start(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(State::default());
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if shared.is_over.load(Ordering::SeqCst) {
                    return;
                }
                if shared.is_cut.load(Ordering::SeqCst) {
                    shared.refused.fetch_add(1, Ordering::SeqCst);
                } else if let Ok(server) = TcpStream::connect(("127.0.0.1", server)) {
                    shared.join(client, server);
                }
            }
        });
        Self { port, state }
    }

    pub(super) fn connect_string(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Breaks the connections and lets nobody in.
    pub(super) fn cut(&self) {
        self.state.is_cut.store(true, Ordering::SeqCst);
        self.state.close_all();
    }

    pub(super) fn mend(&self) {
        self.state.is_cut.store(false, Ordering::SeqCst);
    }

    pub(super) fn refused(&self) -> usize {
        self.state.refused.load(Ordering::SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.state.is_over.store(true, Ordering::SeqCst);
        self.state.close_all();
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

impl State {
    fn join(&self, client: TcpStream, server: TcpStream) {
        for (from, to) in [(&client, &server), (&server, &client)] {
            let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
            thread::spawn(move || {
                let _ = io::copy(&mut from, &mut to);
                let _ = to.shutdown(Shutdown::Both);
            });
        }
        self.connections.lock().extend([client, server]);
        if self.is_cut.load(Ordering::SeqCst) {
            self.close_all();
        }
    }

    fn close_all(&self) {
        for connection in self.connections.lock().drain(..) {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }
}
