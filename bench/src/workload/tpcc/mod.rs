//! TPC-C: orders, payments and the rest, on any number of warehouses.
//!
//! As in the papers that report it, NewOrder and Payment alone; or all five transactions in the
//! specification's shares.

mod check;
mod figure;
mod fill;
mod judge;

use std::fmt::Write;

use anyhow::ensure;
use rand::{Rng, RngCore};

use super::chance::{another, non_uniform, percent};
use super::{Amounts, Ask, Call, Check, Ledger, Seen, Workload};
use figure::Figure;

/// How the workload is made up.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Warehouses
    #[arg(long, default_value_t = 1)]
    pub warehouses: u32,
    /// Which transactions
    #[arg(long, value_enum, default_value_t = Mix::Paper)]
    pub mix: Mix,
    /// Divides customers, orders and items, for a short test
    #[arg(long, default_value_t = 1)]
    pub scale_down: u32,
}

/// Which transactions there are, and how many of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Mix {
    /// 51 % NewOrder, 49 % Payment
    Paper,
    /// 45 % NewOrder, 43 % Payment, 4 % each of OrderStatus, Delivery and StockLevel
    Full,
}

const DISTRICTS: u32 = 10;
/// The constants of non-uniform numbers while the workload runs (clause 2.1.6.1: that of last names
/// is 66 more than while it is filled).
const LAST_NAME_WHILE_FILLED: u64 = 157;
const LAST_NAME: u64 = 223;
const CUSTOMER: u64 = 259;
const ITEM: u64 = 7911;

pub struct Tpcc {
    warehouses: u32,
    /// Of each district; as many orders.
    customers: u32,
    items: u32,
    mix: Mix,
}

impl Tpcc {
    pub fn new(options: &Options) -> anyhow::Result<Self> {
        let Options { warehouses, mix, scale_down } = *options;
        ensure!(warehouses > 0, "there is no warehouse: give --warehouses 1 or more");
        // An order has up to 15 different items.
        ensure!((1..=1000).contains(&scale_down), "--scale-down can be from 1 to 1000, not {scale_down}");
        Ok(Tpcc { warehouses, customers: 3000 / scale_down, items: 100_000 / scale_down, mix })
    }

    /// The orders before this one are delivered when it begins.
    fn first_new_order(&self) -> u32 {
        self.customers - self.customers * 3 / 10 + 1
    }

    fn other_warehouse(&self, random: &mut dyn RngCore, warehouse: u32) -> u32 {
        let other = another(warehouse.into(), || random.random_range(1..=u64::from(self.warehouses)));
        other as u32
    }

    fn customer(&self, random: &mut dyn RngCore) -> u64 {
        non_uniform(random, 1023, CUSTOMER, 1, self.customers.into())
    }

    /// A customer's number, or in 60 % of all cases a last name; as JSON.
    fn who(&self, random: &mut dyn RngCore) -> String {
        if percent(random, 60.0) {
            let names = u64::from(self.customers.min(1000));
            format!("\"{}\"", last_name(non_uniform(random, 255, LAST_NAME, 0, names - 1)))
        } else {
            self.customer(random).to_string()
        }
    }

    fn new_order(&self, random: &mut dyn RngCore, warehouse: u32, district: u32) -> (String, Amounts) {
        let mut arguments = format!("[{},[", self.customer(random));
        let count = random.random_range(5..=15);
        let is_invalid = percent(random, 1.0);
        let mut items: Vec<u64> = Vec::with_capacity(count);
        while items.len() < count {
            let item = non_uniform(random, 8191, ITEM, 1, self.items.into());
            if !items.contains(&item) {
                items.push(item);
            }
        }
        if is_invalid {
            items[count - 1] = u64::from(self.items) + 1;
        }
        // Of its own warehouse.
        let (mut pieces, mut own_lines, mut own_pieces) = (0, 0, 0);
        let mut amounts = Amounts::with_capacity(8);
        for (at, item) in items.into_iter().enumerate() {
            let is_remote = self.warehouses > 1 && percent(random, 1.0);
            let supplier = if is_remote { self.other_warehouse(random, warehouse) } else { warehouse };
            let comma = if at == 0 { "" } else { "," };
            let quantity = i64::from(random.random_range(1..=10i32));
            let _ = write!(arguments, "{comma}[{item},{supplier},{quantity}]");
            pieces += quantity;
            if is_remote {
                amounts.extend([(Figure::SoldLines.of(supplier), 1), (Figure::SoldPieces.of(supplier), quantity)]);
            } else {
                (own_lines, own_pieces) = (own_lines + 1, own_pieces + quantity);
            }
        }
        arguments.push_str("]]");
        amounts.extend([
            (Figure::SoldLines.of(warehouse), own_lines),
            (Figure::SoldPieces.of(warehouse), own_pieces),
            (Figure::Orders.at(warehouse, district), 1),
            (Figure::Lines.at(warehouse, district), count as i64),
            (Figure::Pieces.at(warehouse, district), pieces),
        ]);
        (arguments, amounts)
    }

    fn payment(&self, random: &mut dyn RngCore, warehouse: u32, district: u32) -> (String, Amounts) {
        let (mut home, mut home_district) = (warehouse, district);
        if self.warehouses > 1 && percent(random, 15.0) {
            home = self.other_warehouse(random, warehouse);
            home_district = random.random_range(1..=DISTRICTS);
        }
        let who = self.who(random);
        let amount = i64::from(random.random_range(100..=500_000i32));
        let amounts = Amounts::from_vec(vec![
            (Figure::Payments.at(warehouse, district), 1),
            (Figure::Paid.at(warehouse, district), amount),
            (Figure::PaymentsByCustomers.at(home, home_district), 1),
            (Figure::PaidByCustomers.at(home, home_district), amount),
        ]);
        (format!("[{home},{home_district},{who},{amount}]"), amounts)
    }
}

impl Workload for Tpcc {
    fn name(&self) -> &'static str {
        match self.mix {
            Mix::Paper => "tpcc",
            Mix::Full => "tpcc-full",
        }
    }

    fn app(&self) -> &'static str {
        "tpcc"
    }

    fn fill(&self) -> Box<dyn Iterator<Item = Call> + Send + '_> {
        Box::new(fill::calls(self))
    }

    fn next(&self, random: &mut dyn RngCore) -> Call {
        let (warehouse, district) = (random.random_range(1..=self.warehouses), random.random_range(1..=DISTRICTS));
        let [order, payment, status, delivery] = match self.mix {
            Mix::Paper => [51, 100, 100, 100],
            Mix::Full => [45, 88, 92, 96],
        };
        let key = format!("{warehouse}:{district}");
        match random.random_range(0..100) {
            kind if kind < order => {
                let (arguments, amounts) = self.new_order(random, warehouse, district);
                Call::write("terminal", key, "new_order", arguments).adding(amounts)
            }
            kind if kind < payment => {
                let (arguments, amounts) = self.payment(random, warehouse, district);
                Call::write("terminal", key, "payment", arguments).adding(amounts)
            }
            kind if kind < status => Call::read("terminal", key, "order_status", format!("[{}]", self.who(random))),
            kind if kind < delivery => {
                Call::write("terminal", key, "delivery", format!("[{}]", random.random_range(1..=10)))
                    .adding([(Figure::Deliveries.of(warehouse), 1)])
            }
            _ => Call::read("terminal", key, "stock_level", format!("[{}]", random.random_range(10..=20))),
        }
    }

    fn expects(&self, code: &str, message: &str) -> bool {
        code == "ABORTED" && message == "item number is not valid"
    }

    fn figures(&self) -> usize {
        Figure::count(self.warehouses)
    }

    fn check(&self, ask: &mut Ask<'_>, ledger: &Ledger) -> Vec<Check> {
        check::conditions(self, ask, ledger)
    }

    fn witnesses(&self, call: &Call) -> Vec<Call> {
        judge::witnesses(call)
    }

    fn judge(&self, seen: &Seen<'_>) -> anyhow::Result<()> {
        judge::judge(self, seen)
    }
}

/// The last name that a number stands for (clause 4.3.2.3).
fn last_name(number: u64) -> String {
    const SYLLABLES: [&str; 10] = ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];
    [number / 100, number / 10 % 10, number % 10].map(|digit| SYLLABLES[digit as usize]).concat()
}
