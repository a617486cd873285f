//! Accounts whose keys begin with a group, so that a group lives in one place.

use styx_sdk::prelude::*;

use crate::{Account, next_page, sum};

/// The operator `member`.
pub struct Member;

#[operator(name = "member", key_prefix = "group")]
/// Accounts of a group.
impl Member {
    /// Opens the account, or sets its balance.
    pub fn insert(ctx: &mut Context, balance: i64) {
        Account::store(ctx, balance);
    }

    /// The balance.
    #[function(read_only)]
    pub fn read(ctx: &Context) -> Result<i64> {
        Account::load(ctx)
    }

    /// Adds one and returns the balance.
    pub fn update(ctx: &mut Context) -> Result<i64> {
        Account::add(ctx, 1)
    }

    /// Moves one to another member and returns the own balance; aborts if that would be negative.
    pub fn transfer(ctx: &mut Context, to: String) -> Result<i64> {
        Account::transfer_to("member", ctx, &to)
    }

    /// Adds one; the other half of a transfer.
    pub fn credit(ctx: &mut Context) -> Result<()> {
        Account::add(ctx, 1).map(drop)
    }

    /// A page of the group: [accounts, sum of their balances, last key of the page or null].
    #[function(read_only)]
    pub fn sum(ctx: &Context, after: Option<String>, limit: u32) -> Result<(usize, i64, Option<String>)> {
        let group = ctx.key().split(':').next().unwrap_or_default();
        let prefix = format!("{group}:");
        let scan = ctx.state.scan().prefix(&prefix).limit(limit);
        let page = match after.as_deref() {
            None => scan.entries_raw(),
            Some(after) => scan.after(after).entries_raw(),
        };
        let (count, sum) = sum(&page)?;
        Ok((count, sum, next_page(&page, limit)))
    }
}
