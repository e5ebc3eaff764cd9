//! Permits for connections: so many in all, and no more than a share of them for one address.

use crate::client_address::ClientAddress;
use domain::limits;
use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// How many are open, and from which address.
pub(super) struct ConnectionPermits {
    most: usize,
    most_of_one: usize,
    taken: Mutex<TakenPermits>,
}

#[derive(Default)]
struct TakenPermits {
    in_all: usize,
    by_address: HashMap<IpAddr, usize>,
}

impl ConnectionPermits {
    pub(super) fn new(most: usize) -> Arc<Self> {
        let most_of_one = (most * limits::CONNECTIONS_PER_ADDRESS_PERCENT / 100).max(1);
        Arc::new(Self { most, most_of_one, taken: Mutex::default() })
    }

    /// None if there is none left, in all or for this address. A proxy that is trusted may have them all: it asks for
    /// everybody.
    pub(super) fn take(self: &Arc<Self>, address: IpAddr, is_proxy: bool) -> Option<ConnectionPermit> {
        let address = ClientAddress(address).network();
        let mut taken = self.taken();
        let of_one = taken.by_address.get(&address).copied().unwrap_or(0);
        if taken.in_all >= self.most || (of_one >= self.most_of_one && !is_proxy) {
            return None;
        }
        taken.in_all += 1;
        taken.by_address.insert(address, of_one + 1);
        Some(ConnectionPermit { permits: self.clone(), address })
    }

    fn taken(&self) -> MutexGuard<'_, TakenPermits> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Given back when it is dropped.
pub(super) struct ConnectionPermit {
    permits: Arc<ConnectionPermits>,
    address: IpAddr,
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut taken = self.permits.taken();
        taken.in_all -= 1;
        if let Some(count) = taken.by_address.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                taken.by_address.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn one_address_cannot_take_every_permit() {
        let permits = ConnectionPermits::new(8);
        let mut held: Vec<_> = (0..6).map(|_| permits.take(address("192.0.2.1"), false).unwrap()).collect();
        assert!(permits.take(address("192.0.2.1"), false).is_none(), "three quarters are taken");
        assert!(permits.take(address("::ffff:192.0.2.1"), false).is_none(), "that is the same one");
        held.push(permits.take(address("192.0.2.2"), false).unwrap());
        held.push(permits.take(address("192.0.2.3"), false).unwrap());
        assert!(permits.take(address("192.0.2.4"), false).is_none(), "all are taken");
        held.clear();
        held.extend((0..8).map(|_| permits.take(address("192.0.2.1"), true).unwrap()));
        assert!(permits.take(address("192.0.2.1"), true).is_none(), "a proxy has no more than there are");
        held.clear();
        assert!(permits.taken().by_address.is_empty());
        assert!(permits.take(address("192.0.2.1"), false).is_some());
    }

    #[test]
    fn a_network_of_one_household_is_one_address() {
        let permits = ConnectionPermits::new(4);
        let _held: Vec<_> =
            (0..3).map(|n| permits.take(address(&format!("2001:db8::{n}")), false).unwrap()).collect();
        assert!(permits.take(address("2001:db8::ff:1"), false).is_none());
        assert!(permits.take(address("2001:db8:0:1::1"), false).is_some());
    }
}
