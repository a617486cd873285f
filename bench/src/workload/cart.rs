//! A shop's checkouts (Styx, Figure 3): stock of every item in the cart and credit of its user.

use anyhow::ensure;
use clap::ValueEnum;
use rand::{Rng, RngCore, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde_json::json;

use super::chance::Skewed;
use super::{Call, Check, Language, Read, Workload, sums};

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
    fn order(&self, order: u64) -> Call {
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
        let line = |item: u64| json!([item.to_string(), random.random_range(1..=3), price(item)]);
        let lines: Vec<_> = items.into_iter().map(line).collect();
        Call::write("order", order.to_string(), "insert", json!([user.to_string(), lines]).to_string())
    }

    fn balanced(&self, read: &mut Read<'_>) -> anyhow::Result<()> {
        let [users, credit] = sums(read, "user", "0", "audit")?;
        let [items, pieces, value] = sums(read, "item", "0", "audit")?;
        let [orders, _, bought, paid] = sums(read, "order", "0", "audit")?;
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
        Box::new(count.clone().map(user).chain(count.clone().map(item)).chain(count.map(|order| self.order(order))))
    }

    fn next(&self, random: &mut dyn RngCore) -> Call {
        Call::write("order", random.random_range(0..self.count).to_string(), "checkout", "[]".into())
    }

    fn expects(&self, code: &str, message: &str) -> bool {
        code == "ABORTED" && (message.starts_with("not enough of item ") || message.contains(" has a credit of "))
    }

    fn check(&self, read: &mut Read<'_>) -> Vec<Check> {
        vec![Check::new("stock, credit and what was bought balance", self.balanced(read))]
    }
}
