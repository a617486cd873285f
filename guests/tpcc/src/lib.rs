//! TPC-C: a wholesale supplier's warehouses, districts, customers, stock and orders.
//!
//! All five transactions begin at a `terminal`, which keeps nothing itself and calls what it needs:
//! one entity per row of the specification's tables. Every key but an item's begins with its
//! warehouse (`7:3:42` is customer 42 of district 3 of warehouse 7), so that a warehouse lives in one
//! place and scans of it stay there.
//!
//! No call's key or arguments depend on what other transactions change, but for those of a delivery. So
//! orders and payments that meet can run again behind each other, within their locks.
//!
//! Money is in cents, rates are in hundredths of a percent: whole numbers, alike in every language.
//! What changes often has an entity apart from what hardly ever does, so that a new order, which
//! reads the warehouse's tax, is in no payment's way.

mod customer;
mod history;
mod item;
mod key;
mod order;
mod order_line;
mod place;
mod row;
mod stock;
mod terminal;
mod warehouse;

pub use customer::{Customer, CustomerName};
pub use history::History;
pub use item::Item;
pub use order::{NewOrder, Order};
pub use order_line::OrderLine;
pub use stock::Stock;
pub use terminal::Terminal;
pub use warehouse::{District, Warehouse};

styx_sdk::export!(
    Customer,
    CustomerName,
    District,
    History,
    Item,
    NewOrder,
    Order,
    OrderLine,
    Stock,
    Terminal,
    Warehouse
);

#[cfg(test)]
mod tests;
