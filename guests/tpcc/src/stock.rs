//! A warehouse's stock of each item.
//!
//! The figures stand in fixed places in front of the texts, so that a sale changes sixteen bytes
//! and parses nothing.

use styx_sdk::prelude::*;

use crate::item::ORIGINAL;
use crate::{key, row};

/// Bytes of the text that a district has for an item.
const DISTRICT_TEXT: usize = 24;
const DISTRICTS: usize = 10;
/// Quantity, what was sold, orders, remote orders: four bytes each. Then one that says whether it is original.
const FIGURES: usize = 17;

/// A row's bytes: figures, then a text for each district, then data.
struct Row(Vec<u8>);

impl Row {
    fn new(quantity: u32, texts: &str, data: &str) -> Result<Self> {
        let fits = texts.is_ascii() && texts.len() == DISTRICT_TEXT * DISTRICTS;
        ensure!(fits, "the districts' texts have {DISTRICT_TEXT} ASCII characters each");
        let mut row = Row(vec![0; FIGURES]);
        row.set(0, quantity);
        row.0[16] = data.contains(ORIGINAL).into();
        row.0.extend_from_slice(texts.as_bytes());
        row.0.extend_from_slice(data.as_bytes());
        Ok(row)
    }

    fn of(bytes: Vec<u8>) -> Result<Self> {
        ensure!(bytes.len() >= FIGURES + DISTRICT_TEXT * DISTRICTS, "this is no row of the stock");
        Ok(Row(bytes))
    }

    fn get(&self, figure: usize) -> u32 {
        let at = figure * 4;
        u32::from_le_bytes([self.0[at], self.0[at + 1], self.0[at + 2], self.0[at + 3]])
    }

    fn set(&mut self, figure: usize, value: u32) {
        self.0[figure * 4..][..4].copy_from_slice(&value.to_le_bytes());
    }

    fn add(&mut self, figure: usize, value: u32) {
        self.set(figure, self.get(figure).saturating_add(value));
    }

    fn is_original(&self) -> bool {
        self.0[16] == 1
    }

    fn text(&self, district: u32) -> Result<String> {
        ensure!((1..=DISTRICTS as u32).contains(&district), "a warehouse has {DISTRICTS} districts");
        let from = FIGURES + DISTRICT_TEXT * (district as usize - 1);
        Ok(std::str::from_utf8(&self.0[from..from + DISTRICT_TEXT])?.into())
    }
}

/// The operator `stock`.
pub struct Stock;

#[operator(name = "stock", key_prefix = "warehouse")]
/// Stock, by `warehouse:item`.
impl Stock {
    /// Adds rows [quantity, text of all districts, data] for the items from the key's on.
    pub fn fill(ctx: &mut Context, rows: Vec<(u32, String, String)>) -> Result<()> {
        let [warehouse, first] = key::numbers(ctx.key())?;
        for (item, (quantity, texts, data)) in (first..).zip(rows) {
            ctx.state.put_raw_at(&format!("{warehouse}:{item}"), &Row::new(quantity, &texts, &data)?.0);
        }
        Ok(())
    }

    /// Sells so many: [what is left, the district's text, whether it says that it is original].
    pub fn take(ctx: &mut Context, quantity: u32, district: u32, remote: bool) -> Result<(u32, String, bool)> {
        let mut row = Row::of(row::own(ctx, "stock")?)?;
        let before = row.get(0);
        // What would run out is filled up at once.
        let left = if before >= quantity + 10 { before - quantity } else { before + 91 - quantity };
        row.set(0, left);
        row.add(1, quantity);
        row.add(2, 1);
        row.add(3, remote.into());
        ctx.state.put_raw(&row.0);
        Ok((left, row.text(district)?, row.is_original()))
    }

    /// How many of these items of the key's warehouse are fewer than the threshold.
    #[function(read_only)]
    pub fn low(ctx: &Context, items: Vec<u32>, threshold: u32) -> Result<u32> {
        let [warehouse, _] = key::numbers(ctx.key())?;
        let mut low = 0;
        for item in items {
            let key = format!("{warehouse}:{item}");
            let Some(bytes) = ctx.state.get_raw_at(&key) else { bail!("there is no stock {key}") };
            low += u32::from(Row::of(bytes)?.get(0) < threshold);
        }
        Ok(low)
    }

    /// A page of the key's warehouse: [rows, and the sums of quantity, sold, orders, remote orders; last key or null].
    #[function(read_only)]
    pub fn audit(ctx: &Context, after: Option<String>, limit: u32) -> Result<(usize, [u64; 4], Option<String>)> {
        let page = row::page(ctx, &format!("{}:", ctx.key()), after.as_deref(), limit);
        let (count, next) = (page.len(), row::next_page(&page, limit));
        let mut sums = [0; 4];
        for (_, bytes) in page {
            let row = Row::of(bytes)?;
            for (figure, sum) in sums.iter_mut().enumerate() {
                *sum += u64::from(row.get(figure));
            }
        }
        Ok((count, sums, next))
    }
}
