//! Records of several fields, which are read whole and written field by field.

use styx_sdk::prelude::*;

use crate::{next_page, page};

/// The operator `record`.
pub struct Record;

#[operator(name = "record")]
/// Records of fields.
impl Record {
    /// Adds the record, or replaces it.
    pub fn insert(ctx: &mut Context, fields: Vec<String>) -> Result<()> {
        ctx.state.put_raw(&postcard::to_allocvec(&fields)?);
        Ok(())
    }

    /// All fields.
    #[function(read_only)]
    pub fn read(ctx: &Context) -> Result<Vec<String>> {
        Ok(postcard::from_bytes(&Self::load(ctx)?)?)
    }

    /// Replaces a field.
    pub fn update(ctx: &mut Context, field: u32, value: String) -> Result<()> {
        let bytes = Self::load(ctx)?;
        let mut fields: Vec<&str> = postcard::from_bytes(&bytes)?;
        let Some(place) = fields.get_mut(field as usize) else {
            bail!("record {} has no field {field}", ctx.key());
        };
        *place = &value;
        ctx.state.put_raw(&postcard::to_allocvec(&fields)?);
        Ok(())
    }

    /// A page of all records: [records, bytes of their fields, last key of the page or null].
    #[function(read_only)]
    pub fn count(ctx: &Context, after: Option<String>, limit: u32) -> Result<(usize, usize, Option<String>)> {
        let page = page(ctx, after.as_deref(), limit);
        let mut bytes = 0;
        for (_, record) in &page {
            let fields: Vec<&str> = postcard::from_bytes(record)?;
            bytes += fields.into_iter().map(str::len).sum::<usize>();
        }
        Ok((page.len(), bytes, next_page(&page, limit)))
    }

    fn load(ctx: &Context) -> Result<Vec<u8>> {
        match ctx.state.get_raw() {
            Some(bytes) => Ok(bytes),
            None => bail!("there is no record {}", ctx.key()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use styx_sdk::testing::App;

    #[test]
    fn fields_are_replaced_one_at_a_time() {
        let mut app = App::new().with::<Record>();
        app.check(&[
            ("record", "r", "read", "[]", "ABORTED: there is no record r"),
            ("record", "r", "insert", r#"[["a","b"]]"#, "null"),
            ("record", "r", "update", r#"[1,"cd"]"#, "null"),
            ("record", "r", "update", r#"[2,"e"]"#, "ABORTED: record r has no field 2"),
            ("record", "r", "read", "[]", r#"["a","cd"]"#),
            ("record", "r", "count", "[null,1]", r#"[1,3,"r"]"#),
            ("record", "r", "count", r#"["r",1]"#, "[0,0,null]"),
        ]);
    }
}
