//! How many connections each address has: no more than some, so that one machine cannot take them all.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};

/// Open connections by address. Clones are the same.
#[derive(Clone, Debug)]
pub struct Addresses {
    most: usize,
    open: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

impl Addresses {
    /// At most so many connections of each.
    pub fn new(most: usize) -> Self {
        Addresses { most, open: Arc::default() }
    }

    /// Counts a connection for as long as what is returned lives; none if there are too many already.
    pub fn admit(&self, address: IpAddr) -> Option<Counted> {
        let address = machine(address);
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let count = open.entry(address).or_default();
        if *count >= self.most {
            return None;
        }
        *count += 1;
        Some(Counted { addresses: self.clone(), address })
    }
}

/// An open connection.
#[derive(Debug)]
pub struct Counted {
    addresses: Addresses,
    address: IpAddr,
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut open = self.addresses.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = open.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.address);
            }
        }
    }
}

/// What is one machine's: of IPv6 that is a network of 64 bits, which it may draw its addresses from.
pub fn machine(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_machine_has_its_own_number() {
        let addresses = Addresses::new(2);
        let admit = |text: &str| addresses.admit(text.parse().unwrap());
        let (one, two) = (admit("10.0.0.1").unwrap(), admit("::ffff:10.0.0.1").unwrap());
        assert!(admit("10.0.0.1").is_none(), "however it is written");
        let others = (admit("10.0.0.2").unwrap(), admit("2001:db8::1").unwrap(), admit("2001:db8::ffff:1").unwrap());
        assert!(admit("2001:db8::2:0:0:3").is_none() && admit("2001:db8:0:1::1").is_some());
        drop(one);
        assert!(admit("10.0.0.1").is_some());
        drop((two, others));
        assert!(addresses.open.lock().unwrap().is_empty());
    }
}
