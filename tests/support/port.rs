//! Loopback ports for servers.

use std::net::TcpListener;
use std::process;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering;

const FIRST: u32 = 12_000;
const COUNT: u32 = 20_000;

/// A port nobody listens on and that this process has not handed out before.
///
/// Below the range the kernel takes ports of outgoing connections from, so it is still free when a
/// killed server comes back to it.
pub fn free_port() -> u16 {
    static HANDED_OUT: AtomicU32 = AtomicU32::new(0);
    // Test processes that run side by side start at different places.
    let start = process::id().wrapping_mul(97) % COUNT;
    for _ in 0..COUNT {
        let step = HANDED_OUT.fetch_add(1, Ordering::Relaxed);
        let port = u16::try_from(FIRST + (start + step) % COUNT).expect("ports end at 32000");
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("no free loopback port");
}
