//! Trains, by day.

use styx_sdk::prelude::*;

#[derive(Serialize, Deserialize)]
struct Leg {
    free: i64,
    price: i64,
}

struct Train;

#[operator(name = "train")]
impl Train {
    pub fn create(ctx: &mut Context, free: i64, price: i64) -> Result<()> {
        ctx.state.put(&Leg { free, price })
    }

    /// Books seats here and on the legs after it: what all of them cost.
    pub fn book(ctx: &mut Context, seats: i64, onward: Vec<String>) -> Result<i64> {
        let Some(mut leg) = ctx.state.get::<Leg>()? else { bail!("no train runs on {}", ctx.key()) };
        if leg.free < seats {
            return Err(Abort::new(format!("the train on {} is full", ctx.key())).with_app_code("FULL"));
        }
        leg.free -= seats;
        ctx.state.put(&leg)?;
        let mut price = seats * leg.price;
        if let Some((next, rest)) = onward.split_first() {
            price += ctx.call::<i64>(next, ctx.key(), "book", (seats, rest.to_vec()))?;
        }
        Ok(price)
    }
}

styx_sdk::export!(Train);

#[cfg(test)]
mod tests {
    use styx_sdk::testing::App;

    use super::Train;

    #[test]
    fn a_seat_is_booked_once() {
        let mut app = App::new().with::<Train>();
        let mut call = |function: &str, arguments: &str| {
            let reply = app.call_raw("train", "friday", function, arguments.as_bytes());
            reply.map(|reply| String::from_utf8(reply).unwrap()).map_err(|abort| format!("{abort:?}"))
        };
        assert!(call("book", "[1,[]]").unwrap_err().contains("no train runs on friday"));
        call("create", "[3,40]").unwrap();
        assert_eq!(call("book", "[2,[]]").unwrap(), "80");
        assert!(call("book", "[2,[]]").unwrap_err().contains("the train on friday is full"));
        assert_eq!(call("book", r#"[0,["train","train"]]"#).unwrap(), "0");
        assert_eq!(call("book", "[1,[]]").unwrap(), "40");
    }
}
