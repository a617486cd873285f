//! The transactions on a warehouse of two districts and a handful of rows.

use serde_json::{Value, json};
use styx_sdk::testing::App;

use super::*;

struct Shop(App);

impl Shop {
    /// Two warehouses, of which the second only has stock. District 1 has three customers, two of one name.
    fn open() -> Self {
        let app = App::new()
            .with::<Customer>()
            .with::<CustomerName>()
            .with::<District>()
            .with::<History>()
            .with::<Item>()
            .with::<NewOrder>()
            .with::<Order>()
            .with::<OrderLine>()
            .with::<Stock>()
            .with::<Terminal>()
            .with::<Warehouse>();
        let mut shop = Shop(app);
        let address = json!(["1 Main Street", "", "Delft", "ZH", "123411111"]);
        shop.does("warehouse", "1", "insert", json!(["West", address, 1000, 0]));
        for district in 1..=2 {
            let name = format!("District {district}");
            shop.does("district", &format!("1:{district}"), "insert", json!([name, address, 500, 0]));
            shop.does("order", &format!("1:{district}"), "start", json!([1]));
            let customer = |first: &str, last: &str, credit: &str| json!({"first": first, "last": last, "phone": "1", "address": address, "credit": credit, "discount": 2000, "data": "x".repeat(500)});
            let rows =
                json!([[customer("Ann", "BAR", "GC"), customer("Bob", "BAR", "BC"), customer("Cid", "PRI", "GC")]]);
            shop.does("customer", &format!("1:{district}:1"), "fill", rows);
            shop.does("customer_name", &format!("1:{district}"), "fill", json!([[["BAR", [1, 2]], ["PRI", [3]]]]));
        }
        for (item, data) in [(1, "is ORIGINAL"), (2, "is not")] {
            shop.does("item", &item.to_string(), "insert", json!([format!("item {item}"), item * 100, data]));
        }
        let texts: String = (0..10).map(|district| format!("{district:024}")).collect();
        for warehouse in 1..=2 {
            let rows = json!([[[15, texts, "ORIGINAL"], [90, texts, "ORIGINAL"]]]);
            shop.does("stock", &format!("{warehouse}:1"), "fill", rows);
        }
        shop
    }

    fn call(&mut self, operator: &str, key: &str, function: &str, arguments: Value) -> Result<Value, String> {
        let reply = self.0.call_raw(operator, key, function, arguments.to_string().as_bytes());
        reply.map(|reply| serde_json::from_slice(&reply).unwrap()).map_err(|abort| format!("{abort:?}"))
    }

    fn does(&mut self, operator: &str, key: &str, function: &str, arguments: Value) -> Value {
        self.call(operator, key, function, arguments).unwrap()
    }
}

#[test]
fn an_order_is_taken_delivered_and_looked_at() {
    let mut shop = Shop::open();
    let ordered = shop.does("terminal", "1:1", "new_order", json!([1, [[1, 1, 5], [2, 2, 10]]]));
    let lines = json!([["item 1", 10, "B", 100, 500], ["item 2", 80, "G", 200, 2000]]);
    // 25.00 less 20 % and 15 % taxes on it.
    assert_eq!((&ordered["order"], &ordered["total"], &ordered["lines"]), (&json!(1), &json!(2300), &lines));
    let again = shop.does("terminal", "1:1", "new_order", json!([1, [[1, 1, 1]]]));
    // Fewer than ten would be left: 91 come in.
    assert_eq!((&again["order"], &again["lines"][0][1]), (&json!(2), &json!(100)));
    assert_eq!(shop.does("stock", "1", "audit", json!([null, 10])), json!([2, [190, 6, 2, 0], null]));
    assert_eq!(shop.does("stock", "2", "audit", json!([null, 10])), json!([2, [95, 10, 1, 1], null]));
    assert_eq!(shop.does("terminal", "1:1", "stock_level", json!([100])), json!(1), "item 2");

    let status = shop.does("terminal", "1:1", "order_status", json!([1]));
    assert_eq!((&status["order"]["order"], &status["order"]["carrier"]), (&json!(2), &json!(null)));
    assert_eq!(status["order"]["lines"], json!([[1, 1, 1, 100, null]]));
    let none = json!(null);
    let delivered = shop.does("terminal", "1:1", "delivery", json!([7]));
    assert_eq!((&delivered[0], &delivered[1]), (&json!(1), &none));
    assert_eq!(shop.does("new_order", "1:1", "audit", json!([null, 10])), json!([1, null]));
    assert_eq!(
        shop.does("terminal", "1:2", "delivery", json!([7]))[0],
        json!(2),
        "any terminal delivers for all districts"
    );
    assert_eq!(shop.does("terminal", "1:1", "delivery", json!([7]))[0], none);
    let status = shop.does("terminal", "1:1", "order_status", json!(["BAR"]));
    assert_eq!((&status["customer"], &status["balance"]), (&json!(1), &json!(-1000 + 2600)));
    assert_eq!(status["order"]["carrier"], json!(7));
    assert!(status["order"]["lines"][0][4].is_u64(), "delivered: {status}");
    assert_eq!(
        shop.does("order", "1:1", "audit", json!([null, 10])),
        json!([2, [3, 2, 14, 1], [1, 2], 0, [null, null], null])
    );
    let page = shop.does("order_line", "1:1", "audit", json!([null, 2]));
    assert_eq!(page[1], json!([3, 3, 15, 2500, 2, 2500]));
    let page = shop.does("order_line", "1:1", "audit", json!([page[2], 2]));
    assert_eq!(page, json!([1, [1, 1, 1, 100, 1, 100], null]));
}

#[test]
fn an_item_that_does_not_exist_undoes_the_order() {
    let mut shop = Shop::open();
    let failed = shop.call("terminal", "1:1", "new_order", json!([1, [[1, 1, 5], [3, 1, 1]]]));
    assert_eq!(failed, Err("ABORTED: item number is not valid".into()));
    assert_eq!(shop.does("district", "1:1", "audit", json!([])), json!([500, 0]));
    assert_eq!(shop.does("stock", "1", "audit", json!([null, 10])), json!([2, [105, 0, 0, 0], null]));
    assert_eq!(shop.does("terminal", "1:1", "order_status", json!([1]))["order"], json!(null));
}

#[test]
fn payments_are_booked_everywhere_and_bad_credit_keeps_a_record() {
    let mut shop = Shop::open();
    let paid = shop.does("terminal", "1:2", "payment", json!([1, 1, "BAR", 300]));
    assert_eq!((&paid["customer"]["customer"], &paid["customer"]["balance"]), (&json!(1), &json!(-1300)));
    assert_eq!((&paid["warehouse"][0], &paid["district"][0]), (&json!("West"), &json!("District 2")));
    assert_eq!(paid["customer"]["data"], json!(null), "good credit");
    let paid = shop.does("terminal", "1:2", "payment", json!([1, 1, 2, 50]));
    let data = paid["customer"]["data"].as_str().unwrap();
    assert_eq!((&data[..14], data.len()), ("2 1 1 2 1 50|x", 200));
    assert_eq!(shop.does("warehouse", "1", "audit", json!([])), json!([1000, 350]));
    assert_eq!(shop.does("district", "1:2", "audit", json!([])), json!([500, 350]));
    assert_eq!(shop.does("district", "1:1", "audit", json!([])), json!([500, 0]));
    assert_eq!(
        shop.does("history", "1:2", "audit", json!([null, 10])),
        json!([2, 350, 2 * "West    District 2".len(), null])
    );
    let sums = [-3 * 1000 - 350, 3 * 1000 + 350, 5, 0, 1500];
    assert_eq!(shop.does("customer", "1:1", "audit", json!([null, 10])), json!([9, sums, null]));
}
