//! Manifests, good and bad, through one check.

use super::*;

fn check(text: &str, expected: Result<Manifest, &str>) {
    let parsed = Manifest::parse(text).map_err(|error| error.to_string());
    assert_eq!(parsed, expected.map_err(|message| format!("BAD_MANIFEST: {message}")), "{text}");
}

#[test]
fn good() {
    check("", Ok(Manifest::default()));
    check(
        r#"
        [app]
        name = "ledger"
        language = "python"
        entry = "ledger"
        [limits]
        fuel = 200_000_000
        memory = "64MiB"
        payload = 65536
        [operator.journal]
        isolation = "fresh"
        snapshot = ["report"]
        [server]
        anything = "goes"
        "#,
        Ok(Manifest {
            app: App { name: Some("ledger".into()), language: Some(Language::Python), entry: Some("ledger".into()) },
            limits: Limits {
                fuel: Some(200_000_000),
                memory: Some(Size(64 << 20)),
                payload: Some(Size(65536)),
                ..Limits::default()
            },
            operators: [(
                "journal".into(),
                OperatorSettings { isolation: Isolation::Fresh, snapshot: vec!["report".into()] },
            )]
            .into(),
            ..Manifest::default()
        }),
    );
    check(
        "[export.account]\nfunctions = [\"charge\"]\nto = [\"shop\"]\n[export.rates]\n[import]\n\"ledger/book\" = [\"enter\", \"sum\"]",
        Ok(Manifest {
            exports: [
                ("account".into(), Export { functions: Some(vec!["charge".into()]), to: Some(vec!["shop".into()]) }),
                ("rates".into(), Export::default()),
            ]
            .into(),
            imports: [(
                ForeignOperator { app: "ledger".into(), operator: "book".into() },
                vec!["enter".into(), "sum".into()],
            )]
            .into(),
            ..Manifest::default()
        }),
    );
    check(
        "[component.stock]\npath = \"stock\"\nlanguage = \"javascript\"",
        Ok(Manifest {
            components: [(
                "stock".into(),
                Component { path: Some("stock".into()), language: Some(Language::TypeScript), ..Component::default() },
            )]
            .into(),
            ..Manifest::default()
        }),
    );
}

#[test]
fn bad() {
    for (text, message) in [
        ("[limits]\nmemroy = 1", "styx.toml, line 2: unknown key in [limits]: \"memroy\"; did you mean `memory`?"),
        ("[limit]", "styx.toml, line 1: unknown section or key: \"limit\"; did you mean `limits`?"),
        (
            "name = \"x\"",
            "styx.toml, line 1: unknown section or key: \"name\"; known are `app`, `component`, `export`, `import`, `limits`, `operator`, `server`",
        ),
        ("\n[app]\nlanguage = \"Pyton\"", "styx.toml, line 3: unknown language: \"Pyton\"; did you mean `python`?"),
        ("[app]\nlanguage = 3", "styx.toml, line 2: wanted string or table"),
        (
            "[component.a]\nfile = \"a.wasm\"\nentri = 1",
            "styx.toml, line 3: unknown key in [component.a]: \"entri\"; did you mean `entry`?",
        ),
        (
            "[operator.a]\nisolation = \"cold\"",
            "styx.toml, line 2: unknown isolation: \"cold\"; known are `warm`, `fresh`",
        ),
        (
            "[limits]\nmemory = \"64 bananas\"",
            "styx.toml, line 2: invalid value: string \"64 bananas\", expected a size such as \"64MiB\"",
        ),
        ("[limits]\nmemory = -1", "styx.toml, line 2: invalid value: integer `-1`, expected a size such as \"64MiB\""),
        (
            "[limits]\nfuel = 0",
            "styx.toml: limits.fuel is 0, so that nothing could run; leave it out for the server's default",
        ),
        ("[limits]\ncalls = 99999999999", "styx.toml, line 2: invalid value: integer `99999999999`, expected u32"),
        (
            "[app]\nname = \"1st\"",
            "\"1st\" cannot name an app; a name is a letter, then letters, digits, `_` and `-`, at most 64",
        ),
        (
            "[component.\"../x\"]\npath = \"x\"",
            "\"../x\" cannot name a component; a name is a letter, then letters, digits, `_` and `-`, at most 64",
        ),
        (
            "[component.a]\nfile = \"a.wasm\"\npath = \"a\"",
            "styx.toml: component.a has both a `file` and sources; a component is either built already (`file`) or built from `path`",
        ),
        (
            "[app]\nentry = \"x\"\n[component.a]\npath = \"a\"",
            "styx.toml: the app has components, so `app.language` and `app.entry` say nothing; move them to [component.<name>]",
        ),
        (
            "[export.account]\nfunction = [\"charge\"]",
            "styx.toml, line 2: unknown key in [export.account]: \"function\"; did you mean `functions`?",
        ),
        (
            "[export.account]\nfunctions = []",
            "styx.toml: export.account.functions is empty, so that it says nothing; name something, or leave it out",
        ),
        ("[export.account]\nto = [\"shop\", \"shop\"]", "styx.toml: export.account.to names \"shop\" twice"),
        (
            "[export.account]\nto = [\"a/b\"]",
            "\"a/b\" cannot name an app; a name is a letter, then letters, digits, `_` and `-`, at most 64",
        ),
        (
            "[import]\naccount = [\"charge\"]",
            "styx.toml, line 2: invalid value: string \"account\", expected an app and its operator such as \"billing/account\"",
        ),
        (
            "[import]\n\"billing/account/x\" = [\"charge\"]",
            "\"account/x\" cannot name an operator; a name is a letter, then letters, digits, `_` and `-`, at most 64",
        ),
        (
            "[import]\n\"billing/account\" = \"charge\"",
            "styx.toml, line 2: invalid type: string \"charge\", expected a sequence",
        ),
        (
            "[import]\n\"billing/account\" = []",
            "styx.toml: import.\"billing/account\" is empty, so that it says nothing; name something, or leave it out",
        ),
        (
            "[app]\nname = \"shop\"\n[import]\n\"shop/order\" = [\"pay\"]",
            "styx.toml: the app imports its own operator order; an app calls its own operators by their names; leave it out",
        ),
        ("[app\n", "styx.toml, line 1: unclosed table, expected `]`"),
        ("[app]\nname = \"a\"\nname = \"b\"", "styx.toml, line 3: duplicate key"),
    ] {
        check(text, Err(message));
    }
}

/// Made to be more than a reader expects: each is refused in one line that can be shown anywhere.
#[test]
fn hostile() {
    let long = "a".repeat(1 << 20);
    let wide: String = (0..20_000).map(|at| format!("x{at} = 1\n")).collect();
    let manifests = [
        // Deep, long, many.
        format!("[limits]\nfuel = {}{}", "[".repeat(100_000), "]".repeat(100_000)),
        format!("app = {}{}", "{ a = ".repeat(100_000), "}".repeat(100_000)),
        format!("{}x = 1", "a.".repeat(100_000)),
        format!("[{}b]", "a.".repeat(100_000)),
        format!("[app]\nname = \"{long}\""),
        format!("[component.\"{long}\"]\npath = \"x\""),
        format!("[operator.\"{long}\"]\nisolation = \"warm\""),
        format!("[limits]\n{wide}"),
        format!("[limits]\nmemory = \"{}\"", "9".repeat(1 << 20)),
        // Numbers that are none.
        "[limits]\nfuel = 18446744073709551616".to_owned(),
        "[limits]\nfuel = -9223372036854775808".to_owned(),
        "[limits]\nfuel = 1e308".to_owned(),
        "[limits]\nfuel = inf".to_owned(),
        "[limits]\nfuel = nan".to_owned(),
        "[limits]\nfuel = 1979-05-27T07:32:00Z".to_owned(),
        "[limits]\nmemory = \"-1MiB\"".to_owned(),
        "[limits]\ncalls = 4294967296".to_owned(),
        // Names that act on a terminal, or lead elsewhere.
        "[app]\nname = \"\\u001b[31mred\"".to_owned(),
        "[app]\nname = \"a\\u202Eb\"".to_owned(),
        "[app]\nname = \"a\\u0000b\"".to_owned(),
        "[\"\\u001b]0;title\\u0007\"]\nx = 1".to_owned(),
        "[component.\"..\"]\npath = \"x\"".to_owned(),
        // Other text than is meant.
        "\u{0}".to_owned(),
        "[app]\nname = \"a\u{7f}".to_owned(),
        "[app]\n[app]".to_owned(),
        "[[app]]\nname = \"a\"\n[[app]]\nname = \"b\"".to_owned(),
        "[limits]\nfuel = 1\n[limits.fuel]\nx = 1".to_owned(),
        "[limits]\nfuel = 1 fuel = 2".to_owned(),
        "[import]\n\"\\u001b[31m\" = [\"x\"]".to_owned(),
        "[import]\n\"a/\\u001b[31m\" = [\"x\"]".to_owned(),
        "[import]\n\"a/b\" = [\"\\u202E\"]".to_owned(),
        format!("[import]\n\"{long}\" = [\"x\"]"),
        format!("[export.a]\nto = [\"{long}\"]"),
        "\r[limits]\rfuel = 1".to_owned(),
    ];
    for text in manifests {
        let shown: String = text.chars().take(60).collect();
        let error = Manifest::parse(&text).expect_err(&shown).to_string();
        let acts = |char: char| char.is_control() || ('\u{202a}'..='\u{202e}').contains(&char);
        assert!(error.starts_with("BAD_MANIFEST: ") && !error.contains(acts), "{shown:?}: {error:?}");
        assert!(error.len() <= 2000, "{shown:?}: {} bytes", error.len());
    }
}

#[test]
fn text_round_trips() {
    let text = "[app]\nname = \"a\"\n\n[component.b]\nfile = \"b.wasm\"\n\n[limits]\nmemory = \"1MiB\"\nrw_set = 5\n\n[operator.c]\nisolation = \"fresh\"\n\n[export.c]\nfunctions = [\"f\"]\n\n[import]\n\"d/e\" = [\"g\"]\n";
    let manifest = Manifest::parse(text).unwrap();
    assert_eq!(Manifest::parse(&manifest.to_text()).unwrap(), manifest);
    assert_eq!(manifest.to_text(), text.replace("\"1MiB\"", "1048576"));
}
