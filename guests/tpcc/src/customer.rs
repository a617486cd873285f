//! Customers, and the way to find them by their last names.

use serde_json::value::RawValue;
use styx_sdk::prelude::*;

use crate::{key, row};

/// What hardly changes, under the customer's key.
#[derive(Serialize, Deserialize)]
struct Profile<'a> {
    is_good: bool,
    discount: u32,
    since_us: u64,
    first: &'a str,
    last: &'a str,
    phone: &'a str,
    /// A JSON array of street, street, city, state and zip, which is only ever passed on.
    address: &'a str,
}

impl Profile<'_> {
    fn credit(&self) -> &'static str {
        if self.is_good { "GC" } else { "BC" }
    }
}

/// What every payment changes, under `…:account`.
#[derive(Default, Serialize, Deserialize)]
struct Account {
    balance: i64,
    paid: i64,
    payments: u32,
    deliveries: u32,
}

/// A customer to be added.
#[derive(Deserialize)]
pub struct NewCustomer {
    first: String,
    last: String,
    phone: String,
    address: Box<RawValue>,
    credit: String,
    discount: u32,
    data: String,
}

/// What a customer who has paid is shown.
#[derive(Serialize)]
pub struct Paid {
    customer: u32,
    first: String,
    middle: &'static str,
    last: String,
    phone: String,
    address: Box<RawValue>,
    since: u64,
    credit: &'static str,
    credit_limit: i64,
    discount: u32,
    balance: i64,
    /// For bad credit alone.
    data: Option<String>,
}

const MIDDLE: &str = "OE";
/// In cents, like every amount.
const CREDIT_LIMIT: i64 = 5_000_000;
const FIRST_PAYMENT: i64 = 1_000;
/// Characters of the data field, which the newest payments of bad customers fill.
const DATA_MAX: usize = 500;
/// Those that are shown.
const DATA_SHOWN: usize = 200;

/// The operator `customer`.
pub struct Customer;

#[operator(name = "customer", key_prefix = "warehouse")]
/// Customers, by `warehouse:district:customer`.
impl Customer {
    /// Adds customers from the key's on.
    pub fn fill(ctx: &mut Context, rows: Vec<NewCustomer>) -> Result<()> {
        let [warehouse, district, number] = key::numbers(ctx.key())?;
        for (customer, row) in (number..).zip(rows) {
            let key = format!("{warehouse}:{district}:{customer}");
            let profile = row::encode(&Profile {
                is_good: row.credit == "GC",
                discount: row.discount,
                since_us: ctx.time().as_micros() as u64,
                first: &row.first,
                last: &row.last,
                phone: &row.phone,
                address: row.address.get(),
            })?;
            let account = Account { balance: -FIRST_PAYMENT, paid: FIRST_PAYMENT, payments: 1, deliveries: 0 };
            ctx.state.put_raw_at(&key, &profile);
            ctx.state.put_raw_at(&account_key(&key), &row::encode(&account)?);
            ctx.state.put_raw_at(&data_key(&key), row.data.as_bytes());
        }
        Ok(())
    }

    /// What a new order needs: [last name, credit, discount in hundredths of a percent].
    #[function(read_only)]
    pub fn terms(ctx: &Context) -> Result<(String, &'static str, u32)> {
        let bytes = row::own(ctx, "customer")?;
        let profile: Profile = row::decode(&bytes)?;
        Ok((profile.last.into(), profile.credit(), profile.discount))
    }

    /// Pays; returns what is shown.
    pub fn pay(ctx: &mut Context, amount: i64, warehouse: u32, district: u32) -> Result<Paid> {
        let bytes = row::own(ctx, "customer")?;
        let profile: Profile = row::decode(&bytes)?;
        let account = Self::change(ctx, |account| {
            account.balance -= amount;
            account.paid += amount;
            account.payments += 1;
        })?;
        let [own_warehouse, own_district, customer] = key::numbers(ctx.key())?;
        let data = if profile.is_good {
            None
        } else {
            let mut data =
                format!("{customer} {own_district} {own_warehouse} {district} {warehouse} {amount}|").into_bytes();
            let key = data_key(ctx.key());
            data.extend(ctx.state.get_raw_at(&key).unwrap_or_default());
            data.truncate(DATA_MAX);
            ctx.state.put_raw_at(&key, &data);
            data.truncate(DATA_SHOWN);
            Some(String::from_utf8(data)?)
        };
        Ok(Paid {
            customer,
            first: profile.first.into(),
            middle: MIDDLE,
            last: profile.last.into(),
            phone: profile.phone.into(),
            address: RawValue::from_string(profile.address.into())?,
            since: profile.since_us,
            credit: profile.credit(),
            credit_limit: CREDIT_LIMIT,
            discount: profile.discount,
            balance: account.balance,
            data,
        })
    }

    /// Takes an order that was delivered: what it costs is added to the balance.
    pub fn deliver(ctx: &mut Context, amount: i64) -> Result<()> {
        Self::change(ctx, |account| {
            account.balance += amount;
            account.deliveries += 1;
        })?;
        Ok(())
    }

    /// [balance, first name, last name].
    #[function(read_only)]
    pub fn status(ctx: &Context) -> Result<(i64, String, String)> {
        let bytes = row::own(ctx, "customer")?;
        let profile: Profile = row::decode(&bytes)?;
        Ok((Self::account(ctx)?.balance, profile.first.into(), profile.last.into()))
    }

    /// A page of the key's district: [rows, then the sums of balances, of what was paid, of payments
    /// and of deliveries, and bytes of data; last key or null]. A customer has three rows.
    #[function(read_only)]
    pub fn audit(ctx: &Context, after: Option<String>, limit: u32) -> Result<(usize, [i64; 5], Option<String>)> {
        let page = row::page(ctx, &format!("{}:", ctx.key()), after.as_deref(), limit);
        let mut sums = [0; 5];
        for (key, bytes) in &page {
            if key.ends_with(":account") {
                let account: Account = row::decode(bytes)?;
                let figures = [account.balance, account.paid, account.payments.into(), account.deliveries.into()];
                sums.iter_mut().zip(figures).for_each(|(sum, figure)| *sum += figure);
            } else if key.ends_with(":data") {
                sums[4] += bytes.len() as i64;
            }
        }
        Ok((page.len(), sums, row::next_page(&page, limit)))
    }

    fn account(ctx: &Context) -> Result<Account> {
        match ctx.state.get_raw_at(&account_key(ctx.key())) {
            Some(bytes) => row::decode(&bytes),
            None => bail!("there is no customer {}", ctx.key()),
        }
    }

    fn change(ctx: &mut Context, change: impl FnOnce(&mut Account)) -> Result<Account> {
        let mut account = Self::account(ctx)?;
        change(&mut account);
        let key = account_key(ctx.key());
        ctx.state.put_raw_at(&key, &row::encode(&account)?);
        Ok(account)
    }
}

fn account_key(customer: &str) -> String {
    format!("{customer}:account")
}

fn data_key(customer: &str) -> String {
    format!("{customer}:data")
}

/// The operator `customer_name`.
pub struct CustomerName;

#[operator(name = "customer_name", key_prefix = "warehouse")]
/// Customers of one last name, by `warehouse:district:NAME`.
impl CustomerName {
    /// Adds names of the key's district, each with its customers in the order of their first names.
    pub fn fill(ctx: &mut Context, names: Vec<(String, Vec<u32>)>) {
        for (name, customers) in names {
            let key = format!("{}:{name}", ctx.key());
            let bytes: Vec<u8> = customers.into_iter().flat_map(u32::to_le_bytes).collect();
            ctx.state.put_raw_at(&key, &bytes);
        }
    }

    /// The customer in the middle; of an even number the one before it.
    #[function(read_only)]
    pub fn middle(ctx: &Context) -> Result<u32> {
        let bytes = row::own(ctx, "customer of the name")?;
        let (customers, _) = bytes.as_chunks::<4>();
        match customers.get(customers.len().div_ceil(2).saturating_sub(1)) {
            Some(customer) => Ok(u32::from_le_bytes(*customer)),
            None => bail!("there is no customer of the name {}", ctx.key()),
        }
    }
}
