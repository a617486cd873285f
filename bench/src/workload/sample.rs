//! Some calls, one at a time: each answer is judged by what is read before it and after it.

use anyhow::Context;
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;
use serde_json::Value;

use super::ledger::Ledger;
use super::{Ask, Call, Check, Workload, results};

/// So many of them…
const CALLS: usize = 100;
/// …which are not those of a load's seed.
const SEED: u64 = 0x5EED;

/// A call that was made while nothing else ran.
pub struct Seen<'a> {
    pub call: &'a Call,
    /// Its arguments.
    pub arguments: Vec<Value>,
    /// Its result, or nothing if it was aborted as the workload expects.
    pub answer: Option<Value>,
    /// What the workload's witnesses were before it, and after it.
    pub before: Vec<Value>,
    pub after: Vec<Value>,
}

/// Makes the calls, which the ledger knows of afterwards, and says whether all answers were right.
pub fn judged(workload: &dyn Workload, ask: &mut Ask<'_>, ledger: &Ledger) -> Check {
    let mut random = Pcg64Mcg::seed_from_u64(SEED);
    let result = (0..CALLS).try_for_each(|_| {
        let call = workload.next(&mut random);
        let Call { operator, key, function, arguments, .. } = &call;
        judge(workload, &call, ask, ledger).with_context(|| format!("{operator} {key:?}, {function}{arguments}"))
    });
    Check::new("what was answered to single calls is what the state says", result)
}

fn judge(workload: &dyn Workload, call: &Call, ask: &mut Ask<'_>, ledger: &Ledger) -> anyhow::Result<()> {
    let witnesses = workload.witnesses(call);
    let before = results(ask, &witnesses)?;
    let answer = ask(std::slice::from_ref(call))?.pop().context("a call has an answer")?;
    ledger.answered(&call.amounts, answer.as_ref().err().map(|(code, _)| &**code));
    let answer = match answer {
        Ok(result) => Some(result),
        Err((code, message)) if workload.expects(&code, &message) => None,
        Err((code, message)) => anyhow::bail!("it failed with {code}: {message}"),
    };
    let after = results(ask, &witnesses)?;
    let arguments = serde_json::from_str(&call.arguments)?;
    workload.judge(&Seen { call, arguments, answer, before, after })
}
