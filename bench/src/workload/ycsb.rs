//! YCSB-T (Styx, section 9.1): accounts, and transfers of one between two of them.
//!
//! The sum of all balances never changes, whatever runs at the same time, and each account has what was
//! moved to it and lacks what was moved from it. Its figure is what is added to its balance.

use anyhow::ensure;
use clap::ValueEnum;
use rand::{Rng, RngCore};
use serde_json::Value;

use super::chance::{Skewed, another, percent};
use super::ledger::Due;
use super::{Ask, Call, Check, Language, Ledger, Seen, Workload, chosen, each, number, sums};

/// The balance of an account at first.
const BALANCE: i64 = 1_000_000;

#[derive(Clone, Debug, Default, clap::Args)]
pub struct Options {
    /// Accounts
    #[arg(long, default_value_t = 10_000)]
    pub accounts: u64,
    /// Exponent of the Zipf distribution of credited accounts; debited ones are all alike
    #[arg(long, default_value_t = 0.0)]
    pub theta: f64,
    /// Groups of accounts: keys are `group:account`, and transfers stay in a group; 0 for none
    #[arg(long, default_value_t = 0)]
    pub groups: u64,
    /// Of groups: all accounts of one live in one place, by composite keys
    #[arg(long, requires = "groups")]
    pub composite: bool,
    /// Of groups: so many transfers in a hundred go to another group
    #[arg(long, default_value_t = 0.0, requires = "groups")]
    pub crossing: f64,
    /// So many calls in a hundred read a balance
    #[arg(long, default_value_t = 0.0)]
    pub reads: f64,
    /// So many calls in a hundred add one to a balance
    #[arg(long, default_value_t = 0.0)]
    pub updates: f64,
}

/// The options of transfers in the form in which other systems publish their figures.
#[derive(Clone, Debug, clap::Args)]
pub struct TransferOptions {
    /// Accounts
    #[arg(long, default_value_t = 100_000)]
    pub accounts: u64,
    /// Exponent of the Zipf distribution of both accounts
    #[arg(long, default_value_t = 0.0)]
    pub alpha: f64,
}

pub struct Accounts {
    name: &'static str,
    accounts: u64,
    debited: Skewed,
    credited: Skewed,
    groups: u64,
    /// True if keys begin with the group.
    grouped: bool,
    operator: &'static str,
    crossing: f64,
    reads: f64,
    updates: f64,
}

impl Accounts {
    pub fn ycsb_t(options: &Options) -> anyhow::Result<Self> {
        let Options { accounts, theta, groups, composite, crossing, reads, updates } = *options;
        ensure!(accounts > 1, "a transfer needs two accounts: give --accounts 2 or more");
        ensure!(
            reads + updates <= 100.0 && crossing <= 100.0,
            "--reads and --updates, or --crossing, are more than a hundred"
        );
        let grouped = groups > 0;
        let groups = groups.max(1);
        ensure!(
            accounts / groups > 1 && accounts % groups == 0,
            "--accounts {accounts} cannot be shared by --groups {groups}: give a multiple of it, twice at least"
        );
        // Who is credited is chosen among the debited one's group.
        let (debited, credited) = (Skewed::new(accounts, 0.0)?, Skewed::new(accounts / groups, theta)?);
        let operator = if composite { "member" } else { "account" };
        Ok(Accounts {
            name: "ycsb-t",
            accounts,
            debited,
            credited,
            groups,
            grouped,
            operator,
            crossing,
            reads,
            updates,
        })
    }

    /// Transfers, both accounts chosen alike.
    pub fn transfer(options: &TransferOptions) -> anyhow::Result<Self> {
        let TransferOptions { accounts, alpha } = *options;
        ensure!(accounts > 1, "a transfer needs two accounts: give --accounts 2 or more");
        let both = Skewed::new(accounts, alpha)?;
        Ok(Accounts {
            name: "transfer",
            accounts,
            debited: both,
            credited: both,
            groups: 1,
            grouped: false,
            operator: "account",
            crossing: 0.0,
            reads: 0.0,
            updates: 0.0,
        })
    }

    fn key(&self, account: u64) -> String {
        if self.grouped { format!("{}:{account}", account % self.groups) } else { account.to_string() }
    }

    fn read(&self, key: impl Into<String>) -> Call {
        Call::read(self.operator, key, "read", "[]".into())
    }

    fn balances(&self, ask: &mut Ask<'_>) -> anyhow::Result<()> {
        let (mut count, mut sum) = (0, 0);
        // What composite keys keep together is read together; otherwise any key will do.
        let at: Vec<String> = match self.operator {
            "member" => (0..self.groups).map(|group| format!("{group}:")).collect(),
            _ => vec!["0".to_owned()],
        };
        for at in at {
            let [accounts, balances] = sums(ask, self.operator, &at, "sum")?;
            (count, sum) = (count + accounts, sum + balances);
        }
        ensure!(count == self.accounts as i64, "there are {count} accounts, not {}", self.accounts);
        let due = count * BALANCE;
        if self.updates > 0.0 {
            ensure!(sum >= due, "the balances have lost {}", due - sum);
        } else {
            ensure!(sum == due, "the balances come to {sum}, not {due}");
        }
        Ok(())
    }

    fn answered(&self, ask: &mut Ask<'_>, ledger: &Ledger) -> anyhow::Result<()> {
        let accounts = chosen(self.accounts as u32, |account| ledger.due(account).exact() != Some(0));
        let calls = accounts.into_iter().map(|account| (account, self.read(self.key(account.into()))));
        each(ask, calls, |account, balance| {
            let due = ledger.due(account) + Due::from(BALANCE);
            due.demand(format_args!("account {} has", self.key(account.into())), number(&balance)?)
        })
    }
}

impl Workload for Accounts {
    fn name(&self) -> &'static str {
        self.name
    }

    fn app(&self) -> &'static str {
        "ycsb"
    }

    fn languages(&self) -> &'static [Language] {
        Language::value_variants()
    }

    fn fill(&self) -> Box<dyn Iterator<Item = Call> + Send + '_> {
        let insert = |account: u64| Call::write(self.operator, self.key(account), "insert", format!("[{BALANCE}]"));
        Box::new((0..self.accounts).map(insert))
    }

    fn next(&self, random: &mut dyn RngCore) -> Call {
        let from = self.debited.sample(random);
        // One number decides, and none is drawn where all are transfers.
        if self.reads + self.updates > 0.0 && percent(random, self.reads + self.updates) {
            let share = self.reads / (self.reads + self.updates);
            return if random.random_bool(share) {
                self.read(self.key(from))
            } else {
                Call::write(self.operator, self.key(from), "update", "[]".into()).adding([(from as u32, 1)])
            };
        }
        let mut group = from % self.groups;
        if self.crossing > 0.0 && self.groups > 1 && percent(random, self.crossing) {
            group = (group + random.random_range(1..self.groups)) % self.groups;
        }
        let to = another(from, || self.credited.sample(random) * self.groups + group);
        Call::write(self.operator, self.key(from), "transfer", format!("[\"{}\"]", self.key(to)))
            .adding([(from as u32, -1), (to as u32, 1)])
    }

    fn expects(&self, code: &str, message: &str) -> bool {
        code == "ABORTED" && message.ends_with("has nothing left")
    }

    fn figures(&self) -> usize {
        self.accounts as usize
    }

    fn check(&self, ask: &mut Ask<'_>, ledger: &Ledger) -> Vec<Check> {
        vec![
            Check::new("the sum of all balances is what it was", self.balances(ask)),
            Check::new("each account has what was answered", self.answered(ask, ledger)),
        ]
    }

    /// The own account; of a transfer the credited one, too.
    fn witnesses(&self, call: &Call) -> Vec<Call> {
        let others = call.amounts.iter().skip(1).map(|(account, _)| self.key((*account).into()));
        [call.key.clone()].into_iter().chain(others).map(|key| self.read(key)).collect()
    }

    fn judge(&self, seen: &Seen<'_>) -> anyhow::Result<()> {
        let balances = |read: &[Value]| read.iter().map(number).collect::<anyhow::Result<Vec<i64>>>();
        let (before, after) = (balances(&seen.before)?, balances(&seen.after)?);
        let Some(answer) = &seen.answer else {
            ensure!(before[0] <= 0, "it was refused with {before:?}");
            ensure!(after == before, "it was refused, and {before:?} became {after:?}");
            return Ok(());
        };
        let amounts = seen.call.amounts.iter().map(|(_, amount)| *amount).chain([0]);
        let due: Vec<i64> = before.iter().zip(amounts).map(|(balance, amount)| balance + amount).collect();
        ensure!(after == due, "{before:?} became {after:?}, not {due:?}");
        ensure!(number(answer)? == due[0], "it was answered by {answer}, not by {}", due[0]);
        Ok(())
    }
}
