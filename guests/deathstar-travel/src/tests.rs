//! A city of four hotels.

use styx_sdk::testing::App;

use super::*;

#[test]
fn searches_find_what_is_near_and_what_it_costs() {
    let mut app = App::new().with::<Geo>().with::<Rate>().with::<Recommendation>().with::<Search>();
    app.check(&[
        ("geo", "sf:h1", "insert", "[37783500,-122410000]", "null"),
        ("geo", "sf:h2", "insert", "[37793500,-122410000]", "null"),
        ("geo", "sf:h3", "insert", "[37783500,-122420000]", "null"),
        ("geo", "sf:h4", "insert", "[37883500,-122410000]", "null"),
        ("geo", "la:h5", "insert", "[37783500,-122410000]", "null"),
        ("rate", "sf:h3", "insert", "[9900]", "null"),
        // A degree of latitude has 111 km, one of longitude there 88; the fourth is eleven kilometres away.
        ("search", "sf", "nearby", "[37783500,-122410000]", r#"[["h1",0,null],["h3",878,9900],["h2",1111,null]]"#),
        ("recommendation", "sf:h1", "insert", "[37783500,-122410000,80,12000]", "null"),
        ("recommendation", "sf:h2", "insert", "[37793500,-122410000,90,9000]", "null"),
        ("recommendation", "sf:h3", "insert", "[37783500,-122420000,90,15000]", "null"),
        ("recommendation", "sf", "best", r#"["distance",37783600,-122410000]"#, r#"["h1"]"#),
        ("recommendation", "sf", "best", r#"["rate",0,0]"#, r#"["h2","h3"]"#),
        ("recommendation", "sf", "best", r#"["price",0,0]"#, r#"["h2"]"#),
        ("recommendation", "la", "best", r#"["price",0,0]"#, "[]"),
    ]);
}

#[test]
fn rooms_and_seats_are_taken_together_or_not_at_all() {
    let mut app = App::new().with::<Flight>().with::<Hotel>().with::<Order>();
    app.check(&[
        ("hotel", "h1", "insert", "[2]", "null"),
        ("flight", "f1", "insert", "[1]", "null"),
        ("order", "o1", "reserve", r#"["h1","f1","ann"]"#, "null"),
        ("order", "o1", "reserve", r#"["h1","f1","ann"]"#, "ABORTED: order o1 exists already"),
        ("order", "o2", "reserve", r#"["h1","f1","bob"]"#, "ABORTED: flight f1 is sold out"),
        ("order", "o2", "reserve", r#"["h2","f1","bob"]"#, "ABORTED: there is no hotel h2"),
        ("hotel", "h1", "left", "[]", "1"),
        ("flight", "f1", "left", "[]", "0"),
        ("order", "", "list", "[null,9]", r#"[[["h1","f1","ann"]],null]"#),
    ]);
}

#[test]
fn passwords_are_kept_as_hashes() {
    let mut app = App::new().with::<User>();
    app.check(&[
        ("user", "ann", "register", r#"["secret"]"#, "null"),
        ("user", "ann", "login", r#"["secret"]"#, "true"),
        ("user", "ann", "login", r#"["Secret"]"#, "false"),
        ("user", "bob", "login", r#"["secret"]"#, "false"),
    ]);
    assert!(app.state_raw("user", "ann").is_some_and(|stored| !stored.windows(6).any(|bytes| bytes == b"secret")));
}
