//! The calls of every case: transfers of YCSB-T, from one seed.

use std::sync::Arc;

use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;
use styx_protocol::transaction::Request;

use crate::burst::Numbered;
use crate::workload::Workload;
use crate::workload::ycsb::{Accounts, Options};

/// As many accounts as in other measurements: conflicts are a part of the path.
const ACCOUNTS: u64 = 10_000;

/// Makes the workload's calls.
pub struct Transfers {
    accounts: Accounts,
    random: Pcg64Mcg,
    numbered: Numbered,
    insert: Arc<str>,
    transfer: Arc<str>,
}

/// A transfer as a client names it.
pub struct Transfer {
    /// The account that gives.
    pub from: String,
    /// The account that gets, in a JSON array.
    pub arguments: String,
}

impl Transfers {
    /// The first call is always the same.
    pub fn new() -> anyhow::Result<Self> {
        let options = Options { accounts: ACCOUNTS, ..Options::default() };
        Ok(Transfers {
            accounts: Accounts::ycsb_t(&options)?,
            random: Pcg64Mcg::seed_from_u64(1),
            numbered: Numbered::after(0),
            insert: "insert".into(),
            transfer: "transfer".into(),
        })
    }

    /// Opens every account.
    pub fn inserts(&mut self) -> Vec<Arc<Request>> {
        let Transfers { accounts, numbered, insert, .. } = self;
        let request =
            |call: crate::workload::Call| numbered.request(insert, &call.key.as_str().into(), &call.arguments);
        accounts.fill().map(request).collect()
    }

    /// The next transfers, as the protocol takes them.
    pub fn requests(&mut self, count: usize) -> Vec<Arc<Request>> {
        let transfers: Vec<Transfer> = self.take(count).collect();
        let Transfers { numbered, transfer, .. } = self;
        let request = |one: Transfer| numbered.request(transfer, &one.from.into(), &one.arguments);
        transfers.into_iter().map(request).collect()
    }

    /// The next transfers, as clients name them.
    pub fn take(&mut self, count: usize) -> impl Iterator<Item = Transfer> {
        (0..count).map(|_| {
            let call = self.accounts.next(&mut self.random);
            Transfer { from: call.key, arguments: call.arguments }
        })
    }
}
