//! A file with its sites turned into switches: what stands at a site is kept, with something before and behind it.
//!
//! An alternative is written with the original text of what is inside it, without the switches there: only one is on at a
//! time. So the text grows by the depth of expressions and not by their number.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::Range;

/// What kind of small change a mutant is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operator {
    /// A comparison that includes its boundary or does not.
    Boundary,
    /// A comparison or a condition turned round.
    Negation,
    Logic,
    /// `+` and `-`, and the like.
    Arithmetic,
    /// A number that is one more, `true` and `false`.
    Constant,
    /// `min` and `max`, first and last.
    Extremum,
    /// A call or an assignment that is left out.
    Removal,
    /// A `return`, `continue` or `break` that is left out.
    Jump,
    /// A function that does nothing, or has always the same result.
    Result,
    /// A pattern that never matches.
    Pattern,
}

/// How what stands at a site is switched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// An expression, or another one instead.
    Choose,
    /// A truth, or its opposite.
    Flip,
    /// A statement, or none.
    Skip,
    /// An expression without a value, or none.
    SkipValue,
    /// At the start of a function's body: what it returns at once.
    Enter,
    /// Before a `let` in a condition: it does not match.
    Mismatch,
}

/// One change at a site.
#[derive(Clone, Debug)]
pub struct Alternative {
    /// Given to it by the catalog; unique among all crates.
    pub number: u32,
    /// What kind of change.
    pub operator: Operator,
    /// For people: from what, to what.
    pub change: String,
    /// What is compiled instead.
    pub code: String,
}

/// A place in a file where something can be changed.
#[derive(Clone, Debug)]
pub struct Site {
    /// How it is switched.
    pub form: Form,
    /// Bytes of the file; empty where something is only put in.
    pub range: Range<usize>,
    /// The function around it, by its place in the file's list.
    pub function: usize,
    /// What can be there instead.
    pub alternatives: Vec<Alternative>,
}

/// A file and its sites, outer ones before those inside them.
#[derive(Debug, Default)]
pub struct Schema {
    pub text: String,
    /// Where something can be changed.
    pub sites: Vec<Site>,
    /// Names of its functions.
    pub functions: Vec<String>,
}

/// A rewritten file.
#[derive(Debug)]
pub struct Rewritten {
    /// What is compiled.
    pub text: String,
    /// Where in it each site is, with its switches.
    sites: Vec<Placed>,
}

#[derive(Debug)]
struct Placed {
    site: usize,
    range: Range<usize>,
    /// Numbers and where each one's code is.
    alternatives: Vec<(u32, Range<usize>)>,
}

/// What is put in at a position: tails before heads, tails from inside out, heads from outside in.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Insertion {
    Tail { inner_first: std::cmp::Reverse<(usize, usize)> },
    Head { outer_first: (std::cmp::Reverse<usize>, usize) },
}

impl Schema {
    /// Rewrites the file with those of its mutants that are `live`.
    pub fn rewrite(&self, live: impl Fn(u32) -> bool) -> Rewritten {
        let mut insertions = Vec::new();
        for (at, site) in self.sites.iter().enumerate() {
            if site.alternatives.iter().any(|alternative| live(alternative.number)) {
                // What has no length comes before what begins at the same place.
                let length = if site.range.is_empty() { usize::MAX } else { site.range.len() };
                let head = Insertion::Head { outer_first: (std::cmp::Reverse(length), at) };
                let tail = Insertion::Tail { inner_first: std::cmp::Reverse((site.range.start, at)) };
                insertions.push((site.range.start, head, at));
                if !site.range.is_empty() {
                    insertions.push((site.range.end, tail, at));
                }
            }
        }
        insertions.sort();

        let mut text = String::with_capacity(self.text.len() * 4);
        let mut placed: Vec<Placed> = Vec::new();
        let mut places = vec![usize::MAX; self.sites.len()];
        let mut copied = 0;
        for (position, insertion, at) in insertions {
            text.push_str(&self.text[copied..position]);
            copied = position;
            let site = &self.sites[at];
            match insertion {
                Insertion::Head { .. } => {
                    let start = text.len();
                    let alternatives = site.head(&live, &mut text);
                    places[at] = placed.len();
                    placed.push(Placed { site: at, range: start..text.len(), alternatives });
                }
                Insertion::Tail { .. } => {
                    text.push_str(site.tail());
                    placed[places[at]].range.end = text.len();
                }
            }
        }
        text.push_str(&self.text[copied..]);
        Rewritten { text, sites: placed }
    }

    /// Mutants of the function in which `span` is, or after which it comes, that are most likely to be the reason of what
    /// happens there: those that change how control flows.
    pub fn around(&self, rewritten: &Rewritten, span: &Range<usize>) -> Vec<u32> {
        let before = rewritten.sites.iter().filter(|placed| placed.range.start <= span.start);
        let Some(nearest) = before.max_by_key(|placed| placed.range.start) else { return Vec::new() };
        let function = self.sites[nearest.site].function;
        let inside = self.sites.iter().enumerate().filter(|(_, site)| site.function == function);
        let still = |at: usize| rewritten.sites.iter().find(|placed| placed.site == at);
        let mut suspects: BTreeMap<u8, Vec<u32>> = BTreeMap::new();
        for (placed, site) in inside.filter_map(|(at, site)| Some((still(at)?, site))) {
            let suspicion = match site.alternatives.first().map(|alternative| alternative.operator) {
                Some(Operator::Removal) if assigns(&self.text[site.range.clone()], &rewritten.text[span.clone()]) => 0,
                Some(Operator::Jump) => 1,
                Some(Operator::Pattern) => 2,
                Some(Operator::Removal) => 3,
                _ => 4,
            };
            suspects.entry(suspicion).or_default().extend(placed.alternatives.iter().map(|(number, _)| *number));
        }
        suspects.pop_first().map(|(_, numbers)| numbers).unwrap_or_default()
    }
}

/// Whether a statement gives a variable its value.
fn assigns(statement: &str, variable: &str) -> bool {
    statement.strip_prefix(variable).is_some_and(|rest| rest.trim_start().starts_with("= "))
}

impl Rewritten {
    /// The mutant whose own code is at `span`.
    pub fn own(&self, span: &Range<usize>) -> Option<u32> {
        let codes = self.sites.iter().flat_map(|placed| &placed.alternatives);
        let around = codes.filter(|(_, code)| contains(code, span));
        around.min_by_key(|(_, code)| code.len()).map(|(number, _)| *number)
    }

    /// Mutants of the innermost site around `span`.
    pub fn at(&self, span: &Range<usize>) -> Vec<u32> {
        let around = self.sites.iter().filter(|placed| contains(&placed.range, span));
        let innermost = around.min_by_key(|placed| placed.range.len());
        innermost.map(|placed| placed.alternatives.iter().map(|(number, _)| *number).collect()).unwrap_or_default()
    }
}

fn contains(range: &Range<usize>, span: &Range<usize>) -> bool {
    range.start <= span.start && span.end <= range.end
}

impl Site {
    /// Writes what comes before the original text; tells where each alternative's code is.
    fn head(&self, live: &impl Fn(u32) -> bool, text: &mut String) -> Vec<(u32, Range<usize>)> {
        let mut placed = Vec::new();
        for alternative in self.alternatives.iter().filter(|alternative| live(alternative.number)) {
            let number = alternative.number;
            let start = text.len();
            let code = &alternative.code;
            let chained = if placed.is_empty() { "(" } else { "" };
            match self.form {
                Form::Choose => write!(text, "{chained}if ::styx_switch::on({number}) {{ {code} }} else "),
                Form::Flip => write!(text, "(::styx_switch::on({number}) ^ ("),
                Form::Skip => write!(text, "if !::styx_switch::on({number}) {{ "),
                Form::SkipValue => write!(text, "{{ if !::styx_switch::on({number}) {{ "),
                Form::Enter => write!(text, " if ::styx_switch::on({number}) {{ return {code}; }} "),
                Form::Mismatch => write!(text, "!::styx_switch::on({number}) && "),
            }
            .expect("a string takes everything");
            placed.push((number, start..text.len()));
        }
        if self.form == Form::Choose {
            text.push_str("{ ");
        }
        placed
    }

    fn tail(&self) -> &'static str {
        match self.form {
            Form::Choose => " })",
            Form::Flip => "))",
            Form::Skip => " }",
            Form::SkipValue => " } }",
            Form::Enter | Form::Mismatch => "",
        }
    }
}
