//! A shop's checkouts (Styx, Figure 3): stock of every item in the cart and credit of its user.
//!
//! An order's figure is how often it was checked out; what users have left to pay with, and what items are in
//! stock, follows from all of them.

use std::iter;
use std::ops::Add;

use anyhow::ensure;
use clap::ValueEnum;
use rand::{Rng, RngCore, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde_json::{Value, json};

use super::chance::Skewed;
use super::ledger::Due;
use super::{Ask, Call, Check, Language, Ledger, Seen, Workload, each, number, sums};

/// Entities that are compared by their sum: few, so that none makes up for what another lacks.
const TOGETHER: usize = 20;

/// How the workload is made up.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Users, as many items and as many orders
    #[arg(long, default_value_t = 100_000)]
    pub users: u64,
    /// Pieces of each item
    #[arg(long, default_value_t = 10_000)]
    pub stock: i64,
    /// Credit of each user
    #[arg(long, default_value_t = 1_000_000)]
    pub credit: i64,
    /// Exponent of the Zipf distribution of the items in carts
    #[arg(long, default_value_t = 0.0)]
    pub theta: f64,
}

pub struct Cart {
    count: u64,
    stock: i64,
    credit: i64,
    bought: Skewed,
}

impl Cart {
    /// With so many users, items and orders.
    pub fn new(options: &Options) -> anyhow::Result<Self> {
        let Options { users, stock, credit, theta } = *options;
        ensure!(users >= 5, "a cart has up to five items: give --users 5 or more");
        Ok(Cart { count: users, stock, credit, bought: Skewed::new(users, theta)? })
    }

    /// An order's cart: one to five items, one to three of each.
    fn order(&self, order: u64) -> Order {
        let mut random = Pcg64Mcg::seed_from_u64(order);
        let user = random.random_range(0..self.count);
        let size = random.random_range(1..=5);
        let mut items: Vec<u64> = Vec::with_capacity(size);
        while items.len() < size {
            let item = self.bought.sample(&mut random);
            if !items.contains(&item) {
                items.push(item);
            }
        }
        Order { user, lines: items.into_iter().map(|item| (item, random.random_range(1..=3i32).into())).collect() }
    }

    fn balanced(&self, ask: &mut Ask<'_>) -> anyhow::Result<()> {
        let [users, credit] = sums(ask, "user", "0", "audit")?;
        let [items, pieces, value] = sums(ask, "item", "0", "audit")?;
        let [orders, _, bought, paid] = sums(ask, "order", "0", "audit")?;
        let count = self.count as i64;
        ensure!([users, items, orders] == [count; 3], "there are {users} users, {items} items and {orders} orders");
        let missing = count * self.credit - credit;
        ensure!(missing == paid, "users have paid {missing}, orders cost {paid}");
        let missing = count * self.stock - pieces;
        ensure!(missing == bought, "{missing} pieces left the stock, {bought} were bought");
        let full: i64 = (0..self.count).map(|item| self.stock * price(item)).sum();
        ensure!(full - value == paid, "what left the stock is worth {}, orders cost {paid}", full - value);
        Ok(())
    }

    /// Compares all users, items and orders with what was checked out.
    fn answered(&self, ask: &mut Ask<'_>, ledger: &Ledger) -> anyhow::Result<()> {
        let count = self.count as usize;
        let mut credit = vec![Due::from(self.credit); count];
        let mut stock = vec![Due::from(self.stock); count];
        let mut checkouts = vec![Due::default(); count];
        for (at, checkouts) in checkouts.iter_mut().enumerate() {
            *checkouts = ledger.due(at as u32);
            let order = self.order(at as u64);
            credit[order.user as usize] += *checkouts * -order.cost();
            order.lines.iter().for_each(|(item, pieces)| stock[*item as usize] += *checkouts * -pieces);
        }
        let mut keys: Vec<String> = (0..count).map(|key| key.to_string()).collect();
        keys.sort_unstable();
        compare(ask, &keys, "user", "the credit", &credit)?;
        compare(ask, &keys, "item", "pieces", &stock)?;
        compare(ask, &keys, "order", "checkouts", &checkouts)
    }
}

/// Compares the first sum of each entity with what is due; the keys are in order.
fn compare(ask: &mut Ask<'_>, keys: &[String], operator: &'static str, what: &str, dues: &[Due]) -> anyhow::Result<()> {
    let of = |key: &String| dues[key.parse::<usize>().expect("keys are numbers")];
    let befores = iter::once(None).chain(keys.chunks(TOGETHER).map(|keys| keys.last().map(String::as_str)));
    let parts = befores.zip(keys.chunks(TOGETHER)).map(|(before, keys)| (keys, page(operator, before, keys.len())));
    let mut wrong: &[String] = &[];
    each(ask, parts, |keys, sums| {
        let due = keys.iter().map(of).fold(Due::default(), Due::add);
        if wrong.is_empty() && due.demand("", number(&sums[1])?).is_err() {
            wrong = keys;
        }
        Ok(())
    })?;
    // Which of them it is.
    each(ask, wrong.iter().map(|key| (key, alone(operator, key))), |key, sums| {
        of(key).demand(format_args!("{what} of {operator} {key}:"), number(&sums[1])?)
    })?;
    ensure!(wrong.is_empty(), "{what} of {operator} {} together are not what was answered", wrong.join(", "));
    Ok(())
}

/// A cart.
struct Order {
    user: u64,
    /// Items, and how many pieces of each.
    lines: Vec<(u64, i64)>,
}

impl Order {
    fn cost(&self) -> i64 {
        self.lines.iter().map(|(item, pieces)| pieces * price(*item)).sum()
    }
}

/// The sums of so many entities whose keys are behind this one.
fn page(operator: &'static str, after: Option<&str>, count: usize) -> Call {
    Call::read(operator, "0", "audit", json!([after, count]).to_string())
}

/// The sums of one entity: a key that none is between is before it.
fn alone(operator: &'static str, key: &str) -> Call {
    let (last, others) = key.as_bytes().split_last().expect("a key is not empty");
    let before = format!("{}{}~", String::from_utf8_lossy(others), char::from(last - 1));
    page(operator, Some(&before), 1)
}

fn price(item: u64) -> i64 {
    (item * 37 % 100) as i64 + 1
}

impl Workload for Cart {
    fn name(&self) -> &'static str {
        "shopping-cart"
    }

    fn languages(&self) -> &'static [Language] {
        Language::value_variants()
    }

    fn fill(&self) -> Box<dyn Iterator<Item = Call> + Send + '_> {
        let user = |user: u64| Call::write("user", user.to_string(), "insert", format!("[{}]", self.credit));
        let item =
            |item: u64| Call::write("item", item.to_string(), "insert", format!("[{},{}]", self.stock, price(item)));
        let count = 0..self.count;
        let order = |number: u64| {
            let Order { user, lines } = self.order(number);
            let lines: Vec<_> =
                lines.iter().map(|(item, pieces)| json!([item.to_string(), pieces, price(*item)])).collect();
            Call::write("order", number.to_string(), "insert", json!([user.to_string(), lines]).to_string())
        };
        Box::new(count.clone().map(user).chain(count.clone().map(item)).chain(count.map(order)))
    }

    fn next(&self, random: &mut dyn RngCore) -> Call {
        let order = random.random_range(0..self.count);
        Call::write("order", order.to_string(), "checkout", "[]".into()).adding([(order as u32, 1)])
    }

    fn expects(&self, code: &str, message: &str) -> bool {
        code == "ABORTED" && (message.starts_with("not enough of item ") || message.contains(" has a credit of "))
    }

    fn figures(&self) -> usize {
        self.count as usize
    }

    fn check(&self, ask: &mut Ask<'_>, ledger: &Ledger) -> Vec<Check> {
        vec![
            Check::new("stock, credit and what was bought balance", self.balanced(ask)),
            Check::new("users, items and orders have what was answered", self.answered(ask, ledger)),
        ]
    }

    /// The order, its user, its items.
    fn witnesses(&self, call: &Call) -> Vec<Call> {
        let order = self.order(call.key.parse().expect("orders are numbers"));
        let items = order.lines.iter().map(|(item, _)| alone("item", &item.to_string()));
        [alone("order", &call.key), alone("user", &order.user.to_string())].into_iter().chain(items).collect()
    }

    fn judge(&self, seen: &Seen<'_>) -> anyhow::Result<()> {
        let order = self.order(seen.call.key.parse()?);
        let amounts = [1, -order.cost()].into_iter().chain(order.lines.iter().map(|(_, pieces)| -pieces));
        let had = |read: &[Value]| read.iter().map(|sums| number(&sums[1])).collect::<anyhow::Result<Vec<i64>>>();
        let (before, after) = (had(&seen.before)?, had(&seen.after)?);
        let due: Vec<i64> = before.iter().zip(amounts).map(|(before, amount)| before + amount).collect();
        let Some(answer) = &seen.answer else {
            ensure!(due.iter().any(|left| *left < 0), "it was refused with {before:?}");
            ensure!(after == before, "it was refused, and {before:?} became {after:?}");
            return Ok(());
        };
        ensure!(after == due, "{before:?} became {after:?}, not {due:?}");
        ensure!(number(answer)? == order.cost(), "it was answered by {answer}, and costs {}", order.cost());
        Ok(())
    }
}
