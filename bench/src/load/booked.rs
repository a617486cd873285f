//! A workload, and the ledger of what its calls were answered.

use crate::workload::{Ledger, Workload};

pub struct Booked {
    pub workload: Box<dyn Workload>,
    pub ledger: Ledger,
}

impl Booked {
    /// Nothing was called so far.
    pub fn new(workload: Box<dyn Workload>) -> Booked {
        let ledger = Ledger::new(workload.figures());
        Booked { workload, ledger }
    }
}
