//! Addresses that stay free while nobody listens on them, for what is stopped and started again at the same place.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU16, Ordering};

/// An address on loopback that nobody else uses, however long nobody listens there; each call gives another.
///
/// A port that was free a moment ago on 127.0.0.1 may since be the near end of any connection that another test made, so this
/// process has a loopback address of its own (127.64.0.0/10, by its id), and hands out ports below those that the kernel gives.
/// Linux answers on all of 127.0.0.0/8.
pub fn own() -> SocketAddr {
    static PORTS: AtomicU16 = AtomicU16::new(20_000);
    let [high, middle, low] = [16, 8, 0].map(|shift| (std::process::id() >> shift).to_le_bytes()[0]);
    let port = PORTS.fetch_add(1, Ordering::Relaxed);
    SocketAddr::from((Ipv4Addr::new(127, 64 | (high & 63), middle, low), port))
}
