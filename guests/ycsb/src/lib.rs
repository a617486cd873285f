//! YCSB-T: accounts and transfers between them, the workload of Styx §9.1; and the records of its
//! migrations, which are larger.
//!
//! A balance is stored as eight little-endian bytes: this guest measures the
//! system, not a JSON parser. The sum of all balances never changes by a transfer.

mod member;
mod record;

use styx_sdk::prelude::*;

pub use member::Member;
pub use record::Record;

/// The operator `account`.
pub struct Account;

#[operator(name = "account")]
/// Accounts with a balance.
impl Account {
    /// Opens the account, or sets its balance.
    pub fn insert(ctx: &mut Context, balance: i64) {
        Self::store(ctx, balance);
    }

    /// The balance.
    #[function(read_only)]
    pub fn read(ctx: &Context) -> Result<i64> {
        Self::load(ctx)
    }

    /// Adds one and returns the balance.
    pub fn update(ctx: &mut Context) -> Result<i64> {
        Self::add(ctx, 1)
    }

    /// Moves one to another account and returns the own balance; aborts if that
    /// would be negative.
    pub fn transfer(ctx: &mut Context, to: String) -> Result<i64> {
        Self::transfer_to("account", ctx, &to)
    }

    /// The same with an asynchronous call, which runs when this function has returned.
    pub fn transfer_async(ctx: &mut Context, to: String) -> Result<i64> {
        ensure!(to != ctx.key(), "a transfer needs two accounts");
        let balance = Self::load(ctx)?;
        ctx.call_async("account", &to, "credit", ())?;
        ensure!(balance > 0, "account {} has nothing left", ctx.key());
        Self::store(ctx, balance - 1);
        Ok(balance - 1)
    }

    /// Adds one; the other half of a transfer.
    pub fn credit(ctx: &mut Context) -> Result<()> {
        Self::add(ctx, 1).map(drop)
    }

    /// A page of all accounts: [accounts, sum of their balances, last key of the page or null].
    #[function(read_only)]
    pub fn sum(ctx: &Context, after: Option<String>, limit: u32) -> Result<(usize, i64, Option<String>)> {
        let page = page(ctx, after.as_deref(), limit);
        let (count, sum) = sum(&page)?;
        Ok((count, sum, next_page(&page, limit)))
    }

    fn transfer_to(operator: &str, ctx: &mut Context, to: &str) -> Result<i64> {
        ensure!(to != ctx.key(), "a transfer needs two accounts");
        let balance = Self::load(ctx)?;
        ctx.call_raw(operator, to, "credit", b"[]")?;
        ensure!(balance > 0, "account {} has nothing left", ctx.key());
        Self::store(ctx, balance - 1);
        Ok(balance - 1)
    }

    fn add(ctx: &mut Context, amount: i64) -> Result<i64> {
        let Some(balance) = Self::load(ctx)?.checked_add(amount) else { bail!("account {} is full", ctx.key()) };
        Self::store(ctx, balance);
        Ok(balance)
    }

    fn load(ctx: &Context) -> Result<i64> {
        let Some(bytes) = ctx.state.get_raw() else { bail!("there is no account {}", ctx.key()) };
        balance(ctx.key(), &bytes)
    }

    fn store(ctx: &mut Context, balance: i64) {
        ctx.state.put_raw(&balance.to_le_bytes());
    }
}

fn balance(account: &str, bytes: &[u8]) -> Result<i64> {
    match bytes.try_into() {
        Ok(bytes) => Ok(i64::from_le_bytes(bytes)),
        Err(_) => bail!("account {account} does not hold a balance"),
    }
}

/// A page of the operator's entities.
fn page(ctx: &Context, after: Option<&str>, limit: u32) -> Vec<(String, Vec<u8>)> {
    let scan = ctx.state.scan().limit(limit);
    after.map_or(scan, |after| scan.after(after)).entries_raw()
}

/// The number of entities on a page, and the sum of their balances.
fn sum(page: &[(String, Vec<u8>)]) -> Result<(usize, i64)> {
    let mut sum = 0;
    for (key, bytes) in page {
        sum += balance(key, bytes)?;
    }
    Ok((page.len(), sum))
}

/// The last key of a full page: with it the next begins. A page that is not full is the last.
fn next_page(page: &[(String, Vec<u8>)], limit: u32) -> Option<String> {
    if page.len() < limit as usize { None } else { page.last().map(|(key, _)| key.clone()) }
}

styx_sdk::export!(Account, Member, Record);

#[cfg(test)]
mod tests {
    use super::*;
    use styx_sdk::testing::App;

    #[test]
    fn transfers_move_one_and_keep_the_sum() {
        let mut app = App::new().with::<Account>();
        app.check(&[
            ("account", "1", "insert", "[1]", "null"),
            ("account", "2", "insert", "[0]", "null"),
            ("account", "1", "transfer", r#"["2"]"#, "0"),
            ("account", "2", "read", "[]", "1"),
            ("account", "1", "transfer", r#"["2"]"#, "ABORTED: account 1 has nothing left"),
            ("account", "1", "transfer", r#"["1"]"#, "ABORTED: a transfer needs two accounts"),
            ("account", "2", "transfer", r#"["3"]"#, "ABORTED: there is no account 3"),
            ("account", "1", "read", "", "0"),
            ("account", "2", "read", "", "1"),
            ("account", "2", "update", "[]", "2"),
            ("account", "1", "sum", "[null,2]", r#"[2,2,"2"]"#),
            ("account", "1", "sum", r#"["2",2]"#, "[0,0,null]"),
            ("account", "1", "sum", "[null,3]", "[2,2,null]"),
        ]);
        assert_eq!(app.state_raw("account", "2"), Some(&2i64.to_le_bytes()[..]));
    }

    #[test]
    fn members_of_a_group_transfer_and_are_summed_together() {
        let mut app = App::new().with::<Member>();
        app.check(&[
            ("member", "a:1", "insert", "[1]", "null"),
            ("member", "a:2", "insert", "[0]", "null"),
            ("member", "b:1", "insert", "[7]", "null"),
            ("member", "a:1", "transfer", r#"["a:2"]"#, "0"),
            ("member", "a:2", "read", "[]", "1"),
            ("member", "a:1", "transfer", r#"["a:2"]"#, "ABORTED: account a:1 has nothing left"),
            ("member", "a:", "sum", "[null,2]", r#"[2,1,"a:2"]"#),
            ("member", "a:", "sum", r#"["a:2",2]"#, "[0,0,null]"),
            ("member", "b:", "sum", "[null,2]", "[1,7,null]"),
        ]);
    }
}
