//! The README's code: it is here word for word, with what it needs around it, and does what the README says.

mod shop {
    use styx_sdk::prelude::*;

    #[derive(Serialize, Deserialize, Schema)]
    struct Item {
        stock: u32,
        price: u64,
    }

    struct Stock;

    #[operator(name = "stock")] // key_prefix = "warehouse" for composite keys
    impl Stock {
        /// Takes from the stock; aborts when there is not enough.
        pub fn take(ctx: &mut Context, quantity: u32) -> Result<u64> {
            let mut item: Item = ctx.state.require()?;
            ensure!(item.stock >= quantity, "not enough {}", ctx.key());
            item.stock -= quantity;
            ctx.state.put(&item)?;
            Ok(item.price * u64::from(quantity))
        }

        #[function(read_only)]
        pub fn get(ctx: &Context) -> Result<Option<Item>> {
            ctx.state.get()
        }
    }

    styx_sdk::export!(Stock);

    #[test]
    fn what_is_taken_costs_something() -> Result<()> {
        let mut app = styx_sdk::testing::App::new().with::<Stock>();
        app.set_state("stock", "apple", &Item { stock: 3, price: 10 })?;
        assert_eq!(app.call::<u64>("stock", "apple", "take", (2,))?, 20);
        Ok(())
    }
}

mod stored {
    use styx_sdk::prelude::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize, Schema)]
    struct Item {
        stock: u32,
        price: u64,
    }

    struct Stock;

    #[operator(state = Item, migrate = from_v1)]
    impl Stock {
        pub fn get(ctx: &mut Context) -> Result<Item> {
            ctx.state.require()
        }
    }

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Before {
        V1 { count: u32 },
        V2 { stock: u32 },
    }

    fn from_v1(old: Before) -> Result<Item> {
        let (Before::V1 { count: stock } | Before::V2 { stock }) = old;
        Ok(Item { stock, price: 0 })
    }

    #[test]
    fn what_was_there_before_is_migrated() -> Result<()> {
        let mut app = styx_sdk::testing::App::new().with::<Stock>();
        for old in [serde_json::json!({"count": 3}), serde_json::json!({"stock": 3})] {
            app.set_state("stock", "apple", &old)?;
            assert_eq!(app.call::<Item>("stock", "apple", "get", ())?, Item { stock: 3, price: 0 });
        }
        Ok(())
    }
}

#[test]
fn the_readme_has_this_code() {
    // However it is broken into lines.
    let words = |text: &str| text.split_whitespace().collect::<String>().replace(",}", "}");
    let here = words(include_str!("readme.rs"));
    let readme = include_str!("../README.md");
    let blocks: Vec<&str> = readme.split("```rust\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert_eq!(blocks.len(), 3);
    for block in blocks {
        assert!(here.contains(&words(block)), "{block}");
    }
}
