//! The specification's consistency conditions (clause 3.3.2), and what was answered, on figures that the app adds up
//! itself.

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use super::figure::Figure;
use super::fill::{PAID, QUANTITY, line_counts};
use super::{DISTRICTS, Tpcc};
use crate::workload::ledger::Due;
use crate::workload::{Ask, Call, Check, Ledger, PAGE, number, pages, result, sums};

struct Warehouse {
    number: u32,
    paid: i64,
    /// Of its stock: pieces that were sold, and lines.
    sold: [i64; 2],
    districts: Vec<District>,
}

struct District {
    paid: i64,
    next_order: i64,
    payments: i64,
    paid_by_history: i64,
    /// Balance, what was paid, payments and deliveries, of all customers.
    balance: i64,
    paid_by_customers: i64,
    payments_by_customers: i64,
    deliveries: i64,
    highest_order: i64,
    lines: i64,
    /// Orders that wait for their delivery, as they say themselves, and their numbers, if there are any.
    waiting: i64,
    waiting_range: Option<(i64, i64)>,
    new_orders: i64,
    /// Lines that there are, their pieces, and what the delivered ones cost.
    order_lines: i64,
    pieces: i64,
    delivered: i64,
}

/// Reads all figures and compares them.
pub fn conditions(tpcc: &Tpcc, ask: &mut Ask<'_>, ledger: &Ledger) -> Vec<Check> {
    let warehouses: anyhow::Result<Vec<_>> =
        (1..=tpcc.warehouses).map(|warehouse| figures(tpcc, warehouse, ask)).collect();
    let warehouses = match warehouses {
        Ok(warehouses) => warehouses,
        Err(error) => return vec![Check::new("the figures of all warehouses can be read", Err(error))],
    };
    let each = |name, condition: fn(&District) -> anyhow::Result<()>| {
        let districts = warehouses
            .iter()
            .flat_map(|warehouse| (1..).zip(&warehouse.districts).map(|district| (warehouse.number, district)));
        let mut results = districts.map(|(warehouse, (district, figures))| {
            condition(figures).with_context(|| format!("district {warehouse}:{district}"))
        });
        Check::new(name, results.find(Result::is_err).unwrap_or(Ok(())))
    };
    vec![
        Check::new("condition 1: a warehouse was paid what its districts were paid", paid(&warehouses)),
        each("condition 2: the highest order and new order come before the next", |district| {
            let (next, highest) = (district.next_order, district.highest_order);
            ensure!(highest == next - 1, "the highest order is {highest}, the next is {next}");
            let newest = district.waiting_range.map_or(highest, |(_, newest)| newest);
            ensure!(newest == highest, "the highest new order is {newest}, the highest order is {highest}");
            Ok(())
        }),
        each("condition 3: the numbers of new orders have no gaps", |district| {
            let due = district.waiting_range.map_or(0, |(oldest, newest)| newest - oldest + 1);
            ensure!(district.new_orders == due, "there are {} new orders, not {due}", district.new_orders);
            ensure!(district.waiting == due, "{} orders have no carrier, not {due}", district.waiting);
            Ok(())
        }),
        each("condition 4: orders have as many lines as they say", |district| {
            let (lines, due) = (district.order_lines, district.lines);
            ensure!(lines == due, "there are {lines} lines, not {due}");
            Ok(())
        }),
        each("condition 9: a district was paid what its history says", |district| {
            let (paid, due) = (district.paid, district.paid_by_history);
            ensure!(paid == due, "{paid} was paid, not {due}");
            Ok(())
        }),
        each("condition 12: customers owe what was delivered and not paid", |district| {
            let (owed, due) = (district.balance + district.paid_by_customers, district.delivered);
            ensure!(owed == due, "balances and payments come to {owed}, deliveries to {due}");
            Ok(())
        }),
        Check::new("what left the stock is what was ordered", stock(tpcc, &warehouses)),
        Check::new("orders, payments and deliveries are those that were answered", answered(tpcc, &warehouses, ledger)),
    ]
}

fn answered(tpcc: &Tpcc, warehouses: &[Warehouse], ledger: &Ledger) -> anyhow::Result<()> {
    let customers = i64::from(tpcc.customers);
    let waiting = customers + 1 - i64::from(tpcc.first_new_order());
    for Warehouse { number, sold: [pieces, lines], districts, .. } in warehouses {
        let warehouse = *number;
        let due = |figure: Figure| ledger.due(figure.of(warehouse));
        due(Figure::SoldPieces).demand(format_args!("pieces out of the stock of warehouse {warehouse}:"), *pieces)?;
        due(Figure::SoldLines).demand(format_args!("lines out of the stock of warehouse {warehouse}:"), *lines)?;
        let deliveries = due(Figure::Deliveries);
        // A delivery that finds no order of a district delivers none there, and then all of the beginning are gone.
        let deliveries = Due { least: deliveries.least.min(waiting), most: deliveries.most };
        for (number, district) in (1..).zip(districts) {
            let before: i64 = line_counts(tpcc, warehouse, number).into_iter().map(i64::from).sum();
            let sure = |figure: Figure, before| ledger.due(figure.at(warehouse, number)) + Due::from(before);
            let figures = [
                ("orders", sure(Figure::Orders, customers), district.next_order - 1),
                ("lines", sure(Figure::Lines, before), district.order_lines),
                ("pieces", sure(Figure::Pieces, before * QUANTITY), district.pieces),
                ("payments", sure(Figure::Payments, customers), district.payments),
                ("cents paid", sure(Figure::Paid, customers * PAID), district.paid),
                ("payments by customers", sure(Figure::PaymentsByCustomers, customers), district.payments_by_customers),
                ("cents by customers", sure(Figure::PaidByCustomers, customers * PAID), district.paid_by_customers),
                ("deliveries", deliveries, district.deliveries),
            ];
            for (what, due, found) in figures {
                due.demand(format_args!("{what} of district {warehouse}:{number}:"), found)?;
            }
        }
    }
    Ok(())
}

fn paid(warehouses: &[Warehouse]) -> anyhow::Result<()> {
    for warehouse in warehouses {
        let (paid, due): (i64, i64) = (warehouse.paid, warehouse.districts.iter().map(|district| district.paid).sum());
        ensure!(paid == due, "warehouse {} was paid {paid}, its districts {due}", warehouse.number);
    }
    Ok(())
}

/// The orders of the beginning, which were taken from no stock.
fn stock(tpcc: &Tpcc, warehouses: &[Warehouse]) -> anyhow::Result<()> {
    let (mut sold, mut ordered) = ([0, 0], [0, 0]);
    for warehouse in warehouses {
        sold = [sold[0] + warehouse.sold[0], sold[1] + warehouse.sold[1]];
        for (number, district) in (1..).zip(&warehouse.districts) {
            let before: i64 = line_counts(tpcc, warehouse.number, number).into_iter().map(i64::from).sum();
            ordered[0] += district.pieces - before * QUANTITY;
            ordered[1] += district.order_lines - before;
        }
    }
    ensure!(sold == ordered, "pieces and lines: {sold:?} left the stock, {ordered:?} were ordered");
    Ok(())
}

/// Figures that are told at once.
fn single<const N: usize>(ask: &mut Ask<'_>, operator: &'static str, key: &str) -> anyhow::Result<[i64; N]> {
    let reply = result(ask, Call::read(operator, key, "audit", "[]".into()))?;
    let figures = reply.as_array().with_context(|| format!("{operator} {key}: {reply} is no array"))?;
    let figures: Vec<i64> = figures.iter().map(number).collect::<anyhow::Result<_>>()?;
    figures.try_into().map_err(|_| anyhow::anyhow!("{operator} {key}: {reply} has not {N} figures"))
}

fn figures(tpcc: &Tpcc, number: u32, ask: &mut Ask<'_>) -> anyhow::Result<Warehouse> {
    let key = number.to_string();
    let [_, paid] = single(ask, "warehouse", &key)?;
    let [rows, _, pieces, lines, _] = sums(ask, "stock", &key, "audit")?;
    ensure!(rows == i64::from(tpcc.items), "warehouse {number} has {rows} rows of stock");
    let districts = (1..=DISTRICTS).map(|district| self::district(&format!("{number}:{district}"), ask));
    Ok(Warehouse { number, paid, sold: [pieces, lines], districts: districts.collect::<anyhow::Result<_>>()? })
}

fn district(key: &str, ask: &mut Ask<'_>) -> anyhow::Result<District> {
    let [_, paid] = single(ask, "district", key)?;
    let next_order = number(&result(ask, Call::read("order", key, "next", "[]".into()))?)?;
    let [payments, paid_by_history, _] = sums(ask, "history", key, "audit")?;
    let [_, balance, paid_by_customers, payments_by_customers, deliveries, _] = sums(ask, "customer", key, "audit")?;
    let [order_lines, _, _, pieces, _, _, delivered] = sums(ask, "order_line", key, "audit")?;
    let [new_orders] = sums(ask, "new_order", key, "audit")?;
    let (mut highest_order, mut counted_lines) = (0, 0);
    let (mut waiting, mut waiting_range) = (0, None);
    let page = |after: Option<&str>| Call::read("order", key, "audit", json!([after, PAGE]).to_string());
    pages(ask, page, |figures| {
        let [_, sums, all, count, open] = figures else { anyhow::bail!("a page of orders has five figures") };
        counted_lines += number(&sums[0])?;
        highest_order = range(all).map_or(highest_order, |(_, highest)| highest.max(highest_order));
        waiting += number(count)?;
        let seen = waiting_range.into_iter().chain(range(open));
        waiting_range = seen.reduce(|a: (i64, i64), b| (a.0.min(b.0), a.1.max(b.1)));
        Ok(())
    })?;
    Ok(District {
        paid,
        next_order,
        payments,
        paid_by_history,
        balance,
        paid_by_customers,
        payments_by_customers,
        deliveries,
        highest_order,
        lines: counted_lines,
        waiting,
        waiting_range,
        new_orders,
        order_lines,
        pieces,
        delivered,
    })
}

/// Lowest and highest, if there is any.
fn range(figure: &Value) -> Option<(i64, i64)> {
    Some((figure[0].as_i64()?, figure[1].as_i64()?))
}
