//! Operators as users write them, run in the host in memory.

use std::collections::BTreeMap;

use styx_sdk::prelude::*;
use styx_sdk::testing::App;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Schema)]
struct Item {
    stock: u32,
    price: u64,
}

/// What is for sale.
struct Stock;

#[operator(name = "stock", key_prefix = "warehouse")]
/// Things on shelves.
impl Stock {
    /// Sets stock and price.
    pub fn put(ctx: &mut Context, stock: u32, price: u64) -> Result<()> {
        ctx.state.put(&Item { stock, price })
    }

    /// Takes from the stock;
    /// aborts when there is not enough.
    pub fn take(ctx: &mut Context, quantity: u32, note: Option<String>) -> Result<u64> {
        let mut item: Item = ctx.state.require()?;
        ensure!(item.stock >= quantity, "not enough {}", ctx.key());
        item.stock -= quantity;
        ctx.state.put(&item)?;
        if let Some(note) = note {
            ctx.log(Level::Info, note);
        }
        Ok(Self::cost(&item, quantity))
    }

    #[function(read_only)]
    pub fn get(ctx: &Context) -> Result<Option<Item>> {
        ctx.state.get()
    }

    #[function(read_only, name = "keys-from")]
    pub fn keys(
        ctx: &Context,
        prefix: String,
        after: Option<String>,
        limit: u32,
        reverse: bool,
    ) -> Result<Vec<String>> {
        let mut scan = ctx.state.scan().prefix(&prefix).limit(limit);
        if let Some(after) = &after {
            scan = scan.after(after);
        }
        if reverse {
            scan = scan.reverse();
        }
        Ok(scan.entries::<Item>()?.into_iter().map(|(key, _)| key).collect())
    }

    pub fn parse(_ctx: &mut Context, text: String) -> Result<i64, std::num::ParseIntError> {
        text.parse()
    }

    pub fn clear(ctx: &mut Context) {
        ctx.state.delete();
    }

    #[function(read_only)]
    pub fn sly(ctx: &Context) -> Result<()> {
        ctx.call("stock", ctx.key(), "clear", ())
    }

    #[function(read_only)]
    pub fn sly_later(ctx: &Context) -> Result<()> {
        ctx.call_async("stock", ctx.key(), "clear", ())
    }

    pub fn boom(_ctx: &mut Context) {
        panic!("boom");
    }

    pub fn refuse(ctx: &mut Context, how: String) -> Result<()> {
        ctx.state.put("written")?;
        match how.as_str() {
            "new" => Err(Abort::new("no").with_app_code("SOLD_OUT")),
            "parse" => how.parse::<u8>().map(drop).with_app_code("CLOSED_2"),
            "nested" => ctx.call("stock", "inner", "refuse", ("new",)).map_err(|abort| abort.context("really")),
            "nobody" => ctx.call("stock", "inner", "nothing", ()),
            "wrongly" => ctx.call("stock", "inner", "refuse", ()),
            _ => ctx.state.get::<u8>().map(drop),
        }
    }

    fn cost(item: &Item, quantity: u32) -> u64 {
        item.price * u64::from(quantity)
    }
}

struct Order;

#[operator]
impl Order {
    pub fn add(ctx: &mut Context, item: String, quantity: u32) -> Result<u64> {
        let cost: u64 = ctx.call("stock", &item, "take", (quantity,)).map_err(|abort| abort.context("cannot add"))?;
        let mut lines: BTreeMap<String, u32> = ctx.state.get()?.unwrap_or_default();
        lines.insert(item, quantity);
        ctx.state.put(&lines)?;
        Ok(cost)
    }

    /// Ignores the failure of a call, which must not save the transaction.
    pub fn stubborn(ctx: &mut Context) -> Result<&'static str> {
        ctx.state.put("written")?;
        let _ = ctx.call::<u64>("stock", "nothing", "take", (1,));
        Ok("fine")
    }

    /// Appends to a trace what runs when: after the caller, in issue order, depth first.
    pub fn trace(ctx: &mut Context, name: String, depth: u32) -> Result<()> {
        if depth > 0 {
            for child in ["a", "b"] {
                ctx.call_async("order", ctx.key(), "trace", (format!("{name}{child}"), depth - 1))?;
            }
        }
        let mut trace: Vec<String> = ctx.state.get()?.unwrap_or_default();
        trace.push(name);
        ctx.state.put(&trace)
    }

    pub fn chance(ctx: &mut Context) -> (u64, u64, u128, u64) {
        let below = ctx.random_below(10);
        assert!(below < 10 && (0.0..1.0).contains(&ctx.random_fraction()));
        (ctx.random(), ctx.random(), ctx.time().as_micros(), ctx.tid())
    }
}

styx_sdk::export!(Stock, Order);

fn app() -> App {
    let mut app = App::new().with::<Stock>().with::<Order>();
    for (key, stock) in [("w1:apple", 3), ("w1:pear", 5), ("w2:fig", 0)] {
        app.call::<()>("stock", key, "put", (stock, 10)).unwrap();
    }
    app
}

fn error<T: std::fmt::Debug>(result: Result<T>) -> String {
    format!("{:?}", result.expect_err("it fails"))
}

#[test]
fn a_transaction_over_two_entities() {
    let mut app = app();
    assert_eq!(app.call::<u64>("order", "o1", "add", ("w1:apple", 2)).unwrap(), 20);
    assert_eq!(app.state::<Item>("stock", "w1:apple").unwrap(), Some(Item { stock: 1, price: 10 }));
    assert_eq!(app.state_raw("order", "o1"), Some(&br#"{"w1:apple":2}"#[..]));
    assert_eq!(app.call::<Option<Item>>("stock", "w1:apple", "get", ()).unwrap().unwrap().stock, 1);
    assert_eq!(app.call::<Option<Item>>("stock", "none", "get", ()).unwrap(), None);
}

#[test]
fn an_abort_leaves_nothing_behind() {
    let mut app = app();
    assert_eq!(
        error(app.call::<u64>("order", "o1", "add", ("w1:apple", 9))),
        "ABORTED: cannot add: not enough w1:apple"
    );
    assert_eq!(
        error(app.call::<u64>("order", "o1", "add", ("w9:none", 1))),
        r#"ABORTED: cannot add: there is no stock "w9:none""#
    );
    assert_eq!(error(app.call::<String>("order", "o1", "stubborn", ())), r#"ABORTED: there is no stock "nothing""#);
    assert_eq!(error(app.call::<i64>("stock", "w1:apple", "parse", ("x",))), "ABORTED: invalid digit found in string");
    assert_eq!(error(app.call::<()>("stock", "w1:apple", "boom", ())), "GUEST_TRAP: boom");
    assert_eq!(
        error(app.call::<()>("stock", "w1:apple", "sly", ())),
        "GUEST_TRAP: stock.w1:apple is written by a read-only function"
    );
    assert_eq!(
        error(app.call::<()>("stock", "w1:apple", "sly_later", ())),
        "GUEST_TRAP: stock.w1:apple is written by a read-only function"
    );
    assert_eq!(
        error(app.call::<()>("stock", "a", "nothing", ())),
        "UNKNOWN_FUNCTION: operator stock has no function nothing"
    );
    assert_eq!(error(app.call::<()>("nothing", "a", "f", ())), "UNKNOWN_OPERATOR: the app has no operator nothing");
    assert_eq!(app.state_raw("order", "o1"), None);
    assert_eq!(app.state::<Item>("stock", "w1:apple").unwrap().unwrap().stock, 3);
}

#[test]
fn refusals_have_codes_and_bugs_are_logged() {
    let mut app = app();
    let mut refuse = |how: &str| app.call::<()>("stock", "k", "refuse", (how,)).unwrap_err();
    let new = refuse("new");
    assert_eq!((new.code(), new.app_code(), new.message()), ("ABORTED", Some("SOLD_OUT"), "no"));
    assert_eq!(format!("{:?}", refuse("parse")), "ABORTED:CLOSED_2: invalid digit found in string");
    assert_eq!(format!("{:?}", refuse("nested")), "ABORTED:SOLD_OUT: really: no");
    for (how, says) in [
        ("nobody", "stock.refuse called nobody: operator stock has no function nothing"),
        ("wrongly", "stock.refuse was called with arguments that it does not take: argument `how` is missing"),
        (
            "state",
            r#"stock.refuse on "k": state of "k": invalid type: string "written", expected u8 at line 1 column 9"#,
        ),
    ] {
        let mut app = App::new().with::<Stock>();
        let bug = app.call::<()>("stock", "k", "refuse", (how,)).unwrap_err();
        assert_eq!((bug.code(), bug.app_code(), bug.message()), ("GUEST_EXCEPTION", None, says));
        assert_eq!(app.logs(), [(Level::Warn, format!("GUEST_EXCEPTION: {says}"))]);
        assert_eq!(app.state_raw("stock", "k"), None);
    }
}

#[test]
fn codes_have_a_form() {
    for code in ["", "a", "1A", "A-B", &"A".repeat(65)] {
        let made = std::panic::catch_unwind(|| Abort::new("no").with_app_code(code));
        assert!(made.is_err(), "{code:?}");
    }
    let bug = Abort::bad_arguments("no").with_app_code("A");
    assert_eq!((bug.code(), bug.app_code()), ("BAD_ARGUMENTS", None));
}

#[test]
fn arguments_are_positional_and_checked() {
    let mut app = app();
    for (function, arguments, expected) in [
        ("take", "[1]", Ok("10")),
        ("take", r#" [ 1 , "for me" ] "#, Ok("10")),
        ("take", "[1, null]", Ok("10")),
        ("clear", "", Ok("null")),
        ("take", "[]", Err("argument `quantity` is missing")),
        ("take", "", Err("argument `quantity` is missing")),
        ("take", r#"["1"]"#, Err("argument `quantity`: invalid type: string \"1\", expected u32")),
        ("take", "[-1]", Err("argument `quantity`: invalid value: integer `-1`, expected u32")),
        ("take", "[1, null, 2]", Err("too many arguments, it takes [quantity, note]")),
        ("take", r#"{"quantity":1}"#, Err("invalid type: map, expected an array of arguments: [quantity, note]")),
        ("take", "[1", Err("argument `note`: EOF while parsing a list")),
        ("take", "[1] 2", Err("trailing characters at line 1 column 5")),
    ] {
        app.set_state("stock", "k", &Item { stock: 2, price: 10 }).unwrap();
        let result = app.call_raw("stock", "k", function, arguments.as_bytes());
        match expected {
            Ok(reply) => assert_eq!(result.unwrap(), reply.as_bytes(), "{arguments}"),
            Err(message) => assert_eq!(error(result), format!("BAD_ARGUMENTS: {message}"), "{arguments}"),
        }
    }
    assert_eq!(app.logs(), [(Level::Info, "for me".to_owned())]);
}

#[test]
fn scans_see_order_ranges_and_own_writes() {
    let mut app = app();
    let mut keys = |prefix: &str, after: Option<&str>, limit: u32, reverse: bool| {
        app.call::<Vec<String>>("stock", "any", "keys-from", (prefix, after, limit, reverse)).unwrap()
    };
    assert_eq!(keys("", None, 0, false), ["w1:apple", "w1:pear", "w2:fig"]);
    assert_eq!(keys("w1:", None, 0, true), ["w1:pear", "w1:apple"]);
    assert_eq!(keys("", Some("w1:apple"), 1, false), ["w1:pear"]);
    assert_eq!(keys("", Some("w2:fig"), 1, true), ["w1:pear"]);
    assert!(keys("w3:", None, 0, false).is_empty());
}

#[test]
fn asynchronous_calls_run_depth_first_in_issue_order() {
    let mut app = app();
    app.call::<()>("order", "t", "trace", ("x", 2)).unwrap();
    let trace: Vec<String> = app.state("order", "t").unwrap().unwrap();
    assert_eq!(trace, ["x", "xa", "xaa", "xab", "xb", "xba", "xbb"]);
}

#[test]
fn chance_and_time_come_from_the_transaction() {
    let run = || {
        let mut app = App::new().with::<Order>();
        app.set_time_us(7);
        [(); 2].map(|()| app.call::<(u64, u64, u128, u64)>("order", "k", "chance", ()).unwrap())
    };
    let [first, second] = run();
    assert_eq!([first, second], run());
    assert!(first.0 != first.1 && first.0 != second.0);
    assert_eq!((first.2, first.3, second.3), (7, 1, 2));
}

#[test]
fn operators_describe_themselves() {
    let described = app().describe();
    let stock = &described[0];
    assert_eq!((stock.name, stock.key_prefix, stock.doc), ("stock", Some("warehouse"), "Things on shelves."));
    let names: Vec<_> = stock.functions.iter().map(|function| (function.name, function.read_only)).collect();
    assert_eq!(
        names,
        [
            ("put", false),
            ("take", false),
            ("get", true),
            ("keys-from", true),
            ("parse", false),
            ("clear", false),
            ("sly", true),
            ("sly_later", true),
            ("boom", false),
            ("refuse", false)
        ]
    );
    let take = &stock.functions[1];
    assert_eq!(take.doc, "Takes from the stock;\naborts when there is not enough.");
    assert_eq!(take.returns, r#"{"type":"integer","minimum":0}"#);
    let parameters: Vec<_> = take.parameters.iter().map(|parameter| (parameter.name, parameter.required)).collect();
    assert_eq!(parameters, [("quantity", true), ("note", false)]);
    assert_eq!(stock.functions[4].returns, r#"{"type":"integer"}"#);
    assert_eq!(stock.functions[5].returns, r#"{"type":"null"}"#);
    assert_eq!(described[1].name, "order");
}

/// Plays an operator of another app.
struct Account;

#[operator(name = "account")]
impl Account {
    pub fn charge(ctx: &mut Context, cents: u64) -> Result<(String, String)> {
        let sum = ctx.state.get::<u64>()?.unwrap_or_default() + cents;
        ctx.state.put(&sum)?;
        ensure!(cents < 100, "{} has not as much", ctx.key());
        ctx.call_async("rates", "usd", "note", (cents,))?;
        Ok((ctx.app(), ctx.call("rates", "usd", "app", ())?))
    }
}

/// Is one of both apps.
struct Rates;

#[operator(name = "rates")]
impl Rates {
    #[function(read_only)]
    pub fn app(ctx: &Context) -> String {
        ctx.app()
    }

    pub fn note(ctx: &mut Context, cents: u64) -> Result<()> {
        ctx.state.put(&cents)
    }

    pub fn pay(ctx: &mut Context, operator: String, cents: u64) -> Result<(String, String)> {
        ctx.state.put(&0)?;
        ctx.call(&operator, "ann", "charge", (cents,))
    }
}

#[test]
fn operators_of_other_apps_have_their_app_before_their_name() {
    let mut app = App::new().with::<Rates>().with_other::<Account>("billing").with_other::<Rates>("billing");
    app.check(&[
        ("rates", "k", "pay", r#"["billing/account",5]"#, r#"["billing","billing"]"#),
        ("test/rates", "k", "app", "[]", r#""test""#),
        ("rates", "k", "pay", r#"["billing/account",100]"#, "ABORTED: ann has not as much"),
        (
            "rates",
            "k",
            "pay",
            r#"["account",1]"#,
            "GUEST_EXCEPTION: rates.pay called nobody: the app has no operator account",
        ),
        (
            "rates",
            "k",
            "pay",
            r#"["bank/account",1]"#,
            "GUEST_EXCEPTION: rates.pay called nobody: there is no operator bank/account: give it to App::with_other",
        ),
        (
            "rates",
            "k",
            "pay",
            r#"["billing/rates",1]"#,
            "GUEST_EXCEPTION: rates.pay called nobody: operator billing/rates has no function charge",
        ),
    ]);
    assert_eq!(app.state::<u64>("billing/account", "ann").unwrap(), Some(5));
    assert_eq!(app.state::<u64>("billing/rates", "usd").unwrap(), Some(5));
    assert_eq!(app.state_raw("rates", "usd"), None);
    assert_eq!(app.describe().len(), 1, "what others have is not this app's");
}
