//! Items: what all warehouses sell. They never change.

use styx_sdk::prelude::*;

use crate::row;

/// An item.
#[derive(Serialize, Deserialize)]
struct Row<'a> {
    price: u32,
    original: bool,
    name: &'a str,
    data: &'a str,
}

/// Brand items have this word in their data, and in that of their stock.
pub const ORIGINAL: &str = "ORIGINAL";

/// The operator `item`.
pub struct Item;

#[operator(name = "item")]
/// Items, by number.
impl Item {
    /// Adds an item.
    pub fn insert(ctx: &mut Context, name: String, price: u32, data: String) -> Result<()> {
        let row = row::encode(&Row { price, original: data.contains(ORIGINAL), name: &name, data: &data })?;
        ctx.state.put_raw(&row);
        Ok(())
    }

    /// [price, name, whether it says that it is original]; aborts if there is no such item.
    #[function(read_only)]
    pub fn get(ctx: &Context) -> Result<(u32, String, bool)> {
        let Some(bytes) = ctx.state.get_raw() else { bail!("item number is not valid") };
        let row: Row = row::decode(&bytes)?;
        Ok((row.price, row.name.into(), row.original))
    }

    /// A page: [items, sum of prices, bytes of data, last key of the page or null].
    #[function(read_only)]
    pub fn audit(ctx: &Context, after: Option<String>, limit: u32) -> Result<(usize, u64, usize, Option<String>)> {
        let page = row::page(ctx, "", after.as_deref(), limit);
        let (mut prices, mut data) = (0, 0);
        for (_, bytes) in &page {
            let row: Row = row::decode(bytes)?;
            prices += u64::from(row.price);
            data += row.data.len();
        }
        Ok((page.len(), prices, data, row::next_page(&page, limit)))
    }
}
