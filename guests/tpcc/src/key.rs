//! Keys: numbers with colons between them, the warehouse first.
//!
//! Numbers of orders and lines have leading zeros, since keys are in the order of their bytes.

use styx_sdk::prelude::*;

/// The numbers of a key.
pub fn numbers<const N: usize>(key: &str) -> Result<[u32; N]> {
    let mut numbers = [0; N];
    let mut parts = key.split(':');
    for number in &mut numbers {
        match parts.next().map(str::parse) {
            Some(Ok(part)) => *number = part,
            _ => bail!("{key:?} is not a key of {N} numbers"),
        }
    }
    ensure!(parts.next().is_none(), "{key:?} is not a key of {N} numbers");
    Ok(numbers)
}

/// An order, or a row that belongs to one alone.
pub fn order(warehouse: u32, district: u32, order: u32) -> String {
    format!("{warehouse}:{district}:{order:08}")
}

/// A line of an order.
pub fn line(order: &str, line: usize) -> String {
    format!("{order}:{line:02}")
}
