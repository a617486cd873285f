//! The calls of every case: transfers of YCSB-T, from one seed.

use std::sync::Arc;

use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;
use styx_protocol::deployment::{Component, Deployment, Digest, Function, Isolation, Limits, OperatorSpec};
use styx_protocol::ids::{OperatorId, RequestId, Timestamp};
use styx_protocol::transaction::Request;

use crate::workload::Workload;
use crate::workload::ycsb::{Accounts, Options};

/// As many accounts as in other measurements: conflicts are a part of the path.
const ACCOUNTS: u64 = 10_000;

pub struct Transfers {
    accounts: Accounts,
    random: Pcg64Mcg,
    last: u128,
    insert: Arc<str>,
    transfer: Arc<str>,
}

/// A transfer as a client names it.
pub struct Transfer {
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
            last: 0,
            insert: "insert".into(),
            transfer: "transfer".into(),
        })
    }

    pub fn inserts(&mut self) -> Vec<Arc<Request>> {
        let Transfers { accounts, last, insert, .. } = self;
        accounts.fill().map(|call| request(last, insert, &call.key, &call.arguments)).collect()
    }

    /// The next transfers, as the protocol takes them.
    pub fn requests(&mut self, count: usize) -> Vec<Arc<Request>> {
        let transfers: Vec<Transfer> = self.take(count).collect();
        let Transfers { last, transfer, .. } = self;
        transfers.iter().map(|one| request(last, transfer, &one.from, &one.arguments)).collect()
    }

    /// The next transfers, as clients name them.
    pub fn take(&mut self, count: usize) -> impl Iterator<Item = Transfer> {
        (0..count).map(|_| {
            let call = self.accounts.next(&mut self.random);
            Transfer { from: call.key, arguments: call.arguments }
        })
    }
}

/// A request to an account, under the next id.
fn request(last: &mut u128, function: &Arc<str>, key: &str, arguments: &str) -> Arc<Request> {
    *last += 1;
    Arc::new(Request {
        id: RequestId(*last),
        operator: OperatorId(0),
        function: function.clone(),
        key: key.into(),
        args: arguments.as_bytes().into(),
        retained: false,
        origin: None,
    })
}

/// An app with the accounts' functions, which `component` has.
pub fn deployment(component: Digest) -> Deployment {
    let function = |name: &str, read_only| Function {
        name: name.into(),
        parameters: vec![],
        returns: "{}".into(),
        read_only,
        consistency: Default::default(),
        doc: String::new(),
    };
    Deployment {
        id: "dp_bench".into(),
        app: "bench".into(),
        created: Timestamp(0),
        components: vec![Component { name: "ycsb".into(), digest: component, size: 0, sdk: String::new() }],
        operators: vec![OperatorSpec {
            name: "account".into(),
            component: 0,
            key_prefix: None,
            isolation: Isolation::Warm,
            doc: String::new(),
            state: Default::default(),
            functions: vec![
                function("insert", false),
                function("transfer", false),
                function("transfer_async", false),
                function("credit", false),
                function("update", false),
                function("read", true),
            ],
        }],
        limits: Limits::default(),
        interface: Default::default(),
    }
}
