//! Accounts, and money that goes from one to another.

use styx_sdk::prelude::*;

/// Accounts by their owner; the value is the balance.
struct Account;

#[operator(name = "account")]
impl Account {
    /// Adds to the balance, and returns it.
    pub fn deposit(ctx: &mut Context, amount: i64) -> Result<i64> {
        ensure!(amount > 0, "an amount is positive"); // aborts the whole transaction
        let balance = ctx.state.get::<i64>()?.unwrap_or(0) + amount;
        ctx.state.put(&balance)?;
        Ok(balance)
    }

    /// Moves money to another account: both change, or neither.
    pub fn transfer(ctx: &mut Context, to: String, amount: i64) -> Result<i64> {
        ctx.call::<i64>("account", &to, "deposit", (amount,))?;
        let balance = ctx.state.get::<i64>()?.unwrap_or(0) - amount;
        if balance < 0 {
            let short = Abort::new(format_args!("{} is short of {}", ctx.key(), -balance));
            return Err(short.with_app_code("INSUFFICIENT_FUNDS")); // clients get it as `app_code`
        }
        ctx.state.put(&balance)?;
        Ok(balance)
    }

    /// What is there.
    #[function(read_only)]
    pub fn balance(ctx: &Context) -> Result<i64> {
        Ok(ctx.state.get()?.unwrap_or(0))
    }
}

styx_sdk::export!(Account);

#[cfg(test)]
mod tests {
    use styx_sdk::testing::App;

    use super::Account;

    fn app() -> App {
        let mut app = App::new().with::<Account>();
        app.call::<i64>("account", "ann", "deposit", (100,)).unwrap();
        app
    }

    #[test]
    fn money_moves() {
        let mut app = app();
        assert_eq!(app.call::<i64>("account", "ann", "transfer", ("bob", 30)).unwrap(), 70);
        assert_eq!(app.state::<i64>("account", "bob").unwrap(), Some(30));
    }

    #[test]
    fn what_is_not_there_does_not_move() {
        let mut app = app();
        let short = app.call::<i64>("account", "ann", "transfer", ("bob", 300)).unwrap_err();
        assert_eq!(short.app_code(), Some("INSUFFICIENT_FUNDS"));
        assert_eq!(app.state::<i64>("account", "bob").unwrap(), None);
    }
}
