//! YCSB-T: accounts and transfers between them, the workload of Styx §9.1.
//!
//! A balance is stored as eight little-endian bytes: this guest measures the
//! system, not a JSON parser. The sum of all balances never changes by a transfer.

use styx_sdk::prelude::*;

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
        ensure!(to != ctx.key(), "a transfer needs two accounts");
        let balance = Self::load(ctx)?;
        ctx.call_raw("account", &to, "credit", b"[]")?;
        ensure!(balance > 0, "account {} has nothing left", ctx.key());
        Self::store(ctx, balance - 1);
        Ok(balance - 1)
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

    fn add(ctx: &mut Context, amount: i64) -> Result<i64> {
        let Some(balance) = Self::load(ctx)?.checked_add(amount) else { bail!("account {} is full", ctx.key()) };
        Self::store(ctx, balance);
        Ok(balance)
    }

    fn load(ctx: &Context) -> Result<i64> {
        let Some(bytes) = ctx.state.get_raw() else { bail!("there is no account {}", ctx.key()) };
        match bytes.try_into() {
            Ok(bytes) => Ok(i64::from_le_bytes(bytes)),
            Err(_) => bail!("account {} does not hold a balance", ctx.key()),
        }
    }

    fn store(ctx: &mut Context, balance: i64) {
        ctx.state.put_raw(&balance.to_le_bytes());
    }
}

styx_sdk::export!(Account);

#[cfg(test)]
mod tests {
    use super::*;
    use styx_sdk::testing::App;

    fn call(app: &mut App, key: &str, function: &str, arguments: &str) -> String {
        match app.call_raw("account", key, function, arguments.as_bytes()) {
            Ok(reply) => String::from_utf8(reply).unwrap(),
            Err(abort) => format!("{abort:?}"),
        }
    }

    #[test]
    fn transfers_move_one_and_keep_the_sum() {
        let mut app = App::new().with::<Account>();
        for (key, function, arguments, expected) in [
            ("1", "insert", "[1]", "null"),
            ("2", "insert", "[0]", "null"),
            ("1", "transfer", r#"["2"]"#, "0"),
            ("2", "read", "[]", "1"),
            ("1", "transfer", r#"["2"]"#, "ABORTED: account 1 has nothing left"),
            ("1", "transfer", r#"["1"]"#, "ABORTED: a transfer needs two accounts"),
            ("2", "transfer", r#"["3"]"#, "ABORTED: there is no account 3"),
            ("1", "read", "", "0"),
            ("2", "read", "", "1"),
            ("2", "update", "[]", "2"),
        ] {
            assert_eq!(call(&mut app, key, function, arguments), expected, "{key}.{function}{arguments}");
        }
        assert_eq!(app.state_raw("account", "2"), Some(&2i64.to_le_bytes()[..]));
    }
}
