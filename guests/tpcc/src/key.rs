//! Keys: parts with colons between them, the warehouse first.
//!
//! An order's key does not hold its number. The number depends on the orders before it, so a
//! transaction that has to run again behind others would get another key, and what it writes would not
//! be what was locked for it. The key holds the transaction's id, which stays, and which is in the order
//! of the numbers as well: see [`after`].

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

/// What was there at the beginning, in the order of numbers and before all that is ordered.
pub fn initial(number: u32) -> String {
    format!("i{number:08}")
}

/// What the running transaction adds.
pub fn own(ctx: &Context) -> String {
    format!("t{:016x}", ctx.tid())
}

/// The same, but after `last`: a transaction that was put off may come behind later ones.
pub fn after(ctx: &Context, last: &str) -> String {
    behind(own(ctx), last)
}

fn behind(own: String, last: &str) -> String {
    if *own > *last { own } else { format!("{last}~") }
}

/// A line of an order.
pub fn line(order: &str, line: usize) -> String {
    format!("{order}:{line:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_in_the_order_in_which_they_were_given() {
        let mut ids = vec![initial(3000)];
        for own in ["t04", "t09", "t05", "t07", "t0a"] {
            ids.push(behind(own.into(), ids.last().unwrap()));
        }
        assert_eq!(ids, ["i00003000", "t04", "t09", "t09~", "t09~~", "t0a"]);
        // Lines stay with their order.
        let mut keys: Vec<String> = ids.iter().flat_map(|id| [id.clone(), line(id, 1), line(id, 15)]).collect();
        let in_order = keys.clone();
        keys.sort();
        assert_eq!(keys, in_order);
    }
}
