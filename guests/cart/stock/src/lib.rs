//! The stock of a shop: how many of an item there are, and what one costs.
//!
//! Half of the shopping cart example; the other half, the orders, is in Python.
//! An entity is an item, and its value is JSON, so that both languages can read it.

use styx_sdk::prelude::*;

/// An item on the shelf.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct Item {
    /// How many there are.
    pub stock: u32,
    /// What one costs, in cents.
    pub price: u64,
}

/// The operator `stock`.
pub struct Stock;

#[operator(name = "stock")]
/// How many of each item there are, and what one costs.
impl Stock {
    /// Sets how many there are and what one costs.
    pub fn put(ctx: &mut Context, stock: u32, price: u64) -> Result<Item> {
        let item = Item { stock, price };
        ctx.state.put(&item)?;
        Ok(item)
    }

    /// Takes so many and returns what they cost; aborts when there are not enough.
    pub fn take(ctx: &mut Context, quantity: u32) -> Result<u64> {
        let mut item: Item = ctx.state.require()?;
        ensure!(item.stock >= quantity, "not enough {}", ctx.key());
        let Some(cost) = item.price.checked_mul(quantity.into()) else { bail!("{} costs too much", ctx.key()) };
        item.stock -= quantity;
        ctx.state.put(&item)?;
        Ok(cost)
    }

    /// Puts so many back and returns how many there are now.
    pub fn restock(ctx: &mut Context, quantity: u32) -> Result<u32> {
        let mut item: Item = ctx.state.require()?;
        let Some(stock) = item.stock.checked_add(quantity) else { bail!("no room for so many {}", ctx.key()) };
        item.stock = stock;
        ctx.state.put(&item)?;
        Ok(stock)
    }

    /// The item, or null.
    #[function(read_only)]
    pub fn get(ctx: &Context) -> Result<Option<Item>> {
        ctx.state.get()
    }
}

styx_sdk::export!(Stock);

#[cfg(test)]
mod tests {
    use super::*;
    use styx_sdk::testing::App;

    #[test]
    fn takes_only_what_is_there_and_figures_do_not_wrap() {
        let full = format!("[{},{}]", u32::MAX, u64::MAX);
        App::new().with::<Stock>().check(&[
            ("stock", "apple", "put", "[5,30]", r#"{"stock":5,"price":30}"#),
            ("stock", "apple", "take", "[3]", "90"),
            ("stock", "apple", "take", "[3]", "ABORTED: not enough apple"),
            ("stock", "apple", "restock", "[1]", "3"),
            ("stock", "apple", "get", "[]", r#"{"stock":3,"price":30}"#),
            ("stock", "pear", "put", &full, &format!(r#"{{"stock":{},"price":{}}}"#, u32::MAX, u64::MAX)),
            ("stock", "pear", "take", "[2]", "ABORTED: pear costs too much"),
            ("stock", "pear", "restock", "[1]", "ABORTED: no room for so many pear"),
        ]);
    }
}
