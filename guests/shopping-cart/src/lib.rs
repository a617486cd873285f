//! A shopping cart whose checkout is one transaction (Styx, Figure 3): stock of every item and credit
//! of the user, or nothing of it.
//!
//! An order stays as it is when it was checked out and may be checked out again, so that a benchmark
//! never runs out of orders before stock or credit does.

use styx_sdk::prelude::*;

/// The operator `user`.
pub struct User;

#[operator(name = "user")]
/// Customers and their credit, by user id.
impl User {
    /// Registers a customer, or sets the credit.
    pub fn insert(ctx: &mut Context, credit: i64) {
        ctx.state.put_raw(&credit.to_le_bytes());
    }

    /// Takes from the credit; aborts if it would become negative.
    pub fn pay(ctx: &mut Context, amount: i64) -> Result<()> {
        let Some(bytes) = ctx.state.get_raw() else { bail!("there is no user {}", ctx.key()) };
        let credit = number(&bytes)?;
        ensure!(credit >= amount, "user {} has a credit of {credit}, but {amount} is due", ctx.key());
        ctx.state.put_raw(&(credit - amount).to_le_bytes());
        Ok(())
    }

    /// A page of all users: [users, sum of their credit, last key of the page or null].
    #[function(read_only)]
    pub fn audit(ctx: &Context, after: Option<String>, limit: u32) -> Result<(usize, i64, Option<String>)> {
        let page = page(ctx, after.as_deref(), limit);
        let mut credit = 0;
        for (_, bytes) in &page {
            credit += number(bytes)?;
        }
        Ok((page.len(), credit, next_page(&page, limit)))
    }
}

/// An item on the shelf.
#[derive(Serialize, Deserialize)]
struct Shelf {
    stock: u32,
    price: i64,
}

/// The operator `item`.
pub struct Item;

#[operator(name = "item")]
/// Items in stock, by item id.
impl Item {
    /// Sets how many there are and what one costs.
    pub fn insert(ctx: &mut Context, stock: u32, price: i64) -> Result<()> {
        ctx.state.put_raw(&postcard::to_allocvec(&Shelf { stock, price })?);
        Ok(())
    }

    /// Takes so many; aborts if there are not enough.
    pub fn take(ctx: &mut Context, quantity: u32) -> Result<()> {
        let Some(bytes) = ctx.state.get_raw() else { bail!("there is no item {}", ctx.key()) };
        let mut shelf: Shelf = postcard::from_bytes(&bytes)?;
        ensure!(shelf.stock >= quantity, "not enough of item {}", ctx.key());
        shelf.stock -= quantity;
        ctx.state.put_raw(&postcard::to_allocvec(&shelf)?);
        Ok(())
    }

    /// A page of all items: [items, pieces in stock, what all of them cost, last key of the page or null].
    #[function(read_only)]
    pub fn audit(ctx: &Context, after: Option<String>, limit: u32) -> Result<(usize, u64, i64, Option<String>)> {
        let page = page(ctx, after.as_deref(), limit);
        let (mut pieces, mut value) = (0, 0);
        for (_, bytes) in &page {
            let shelf: Shelf = postcard::from_bytes(bytes)?;
            pieces += u64::from(shelf.stock);
            value += i64::from(shelf.stock) * shelf.price;
        }
        Ok((page.len(), pieces, value, next_page(&page, limit)))
    }
}

/// What is in a cart, and how often it was paid.
#[derive(Serialize, Deserialize)]
struct Cart {
    user: String,
    /// Item, quantity, price of one.
    lines: Vec<(String, u32, i64)>,
    checkouts: u32,
}

impl Cart {
    fn total(&self) -> i64 {
        self.lines.iter().map(|(_, quantity, price)| i64::from(*quantity) * price).sum()
    }

    fn pieces(&self) -> u64 {
        self.lines.iter().map(|(_, quantity, _)| u64::from(*quantity)).sum()
    }
}

/// The operator `order`.
pub struct Order;

#[operator(name = "order")]
/// Carts, by order id.
impl Order {
    /// Fills a cart for a user with lines [item, quantity, price of one].
    pub fn insert(ctx: &mut Context, user: String, lines: Vec<(String, u32, i64)>) -> Result<()> {
        ctx.state.put_raw(&postcard::to_allocvec(&Cart { user, lines, checkouts: 0 })?);
        Ok(())
    }

    /// Takes every item out of stock and has the user pay: returns the price, or aborts if anything would
    /// become negative.
    pub fn checkout(ctx: &mut Context) -> Result<i64> {
        let Some(bytes) = ctx.state.get_raw() else { bail!("there is no order {}", ctx.key()) };
        let mut cart: Cart = postcard::from_bytes(&bytes)?;
        for (item, quantity, _) in &cart.lines {
            ctx.call_async("item", item, "take", (quantity,))?;
        }
        let total = cart.total();
        ctx.call_async("user", &cart.user, "pay", (total,))?;
        cart.checkouts += 1;
        ctx.state.put_raw(&postcard::to_allocvec(&cart)?);
        Ok(total)
    }

    /// A page of all orders: [orders, checkouts, pieces that were bought, what was paid, last key of the page
    /// or null].
    #[function(read_only)]
    pub fn audit(ctx: &Context, after: Option<String>, limit: u32) -> Result<(usize, u64, u64, i64, Option<String>)> {
        let page = page(ctx, after.as_deref(), limit);
        let (mut checkouts, mut pieces, mut paid) = (0, 0, 0);
        for (_, bytes) in &page {
            let cart: Cart = postcard::from_bytes(bytes)?;
            checkouts += u64::from(cart.checkouts);
            pieces += u64::from(cart.checkouts) * cart.pieces();
            paid += i64::from(cart.checkouts) * cart.total();
        }
        Ok((page.len(), checkouts, pieces, paid, next_page(&page, limit)))
    }
}

fn number(bytes: &[u8]) -> Result<i64> {
    Ok(i64::from_le_bytes(bytes.try_into()?))
}

/// A page of the operator's entities.
fn page(ctx: &Context, after: Option<&str>, limit: u32) -> Vec<(String, Vec<u8>)> {
    let scan = ctx.state.scan().limit(limit);
    after.map_or(scan, |after| scan.after(after)).entries_raw()
}

/// The last key of a full page: with it the next begins. A page that is not full is the last.
fn next_page(page: &[(String, Vec<u8>)], limit: u32) -> Option<String> {
    if page.len() < limit as usize { None } else { page.last().map(|(key, _)| key.clone()) }
}

styx_sdk::export!(Item, Order, User);

#[cfg(test)]
mod tests {
    use super::*;
    use styx_sdk::testing::App;

    #[test]
    fn a_checkout_takes_stock_and_credit_or_nothing() {
        let mut app = App::new().with::<Item>().with::<Order>().with::<User>();
        app.check(&[
            ("user", "ann", "insert", "[100]", "null"),
            ("item", "pen", "insert", "[5,10]", "null"),
            ("item", "cup", "insert", "[9,20]", "null"),
            ("order", "o1", "insert", r#"["ann",[["pen",2,10],["cup",1,20]]]"#, "null"),
            ("order", "o1", "checkout", "[]", "40"),
            ("order", "o1", "checkout", "[]", "40"),
            ("order", "o1", "checkout", "[]", "ABORTED: not enough of item pen"),
            ("item", "pen", "insert", "[5,10]", "null"),
            ("order", "o1", "checkout", "[]", "ABORTED: user ann has a credit of 20, but 40 is due"),
            ("order", "o2", "checkout", "[]", "ABORTED: there is no order o2"),
            ("user", "", "audit", "[null,9]", "[1,20,null]"),
            ("item", "", "audit", "[null,9]", "[2,12,190,null]"),
            ("order", "", "audit", "[null,1]", r#"[1,2,6,80,"o1"]"#),
        ]);
    }
}
