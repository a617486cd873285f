//! The report's page: text, tables and charts, with nothing to load.

use std::fmt::Write as _;

use super::chart::{self, Axes, Line};

pub struct Page(String);

const STYLE: &str = "\
body{font:16px/1.5 system-ui,sans-serif;max-width:1100px;margin:2rem auto;padding:0 1rem;color:#1a1a1a;background:#fff}
h1{font-size:1.6rem;margin-bottom:.2rem}h2{font-size:1.2rem;margin-top:2.5rem;border-bottom:1px solid #ddd}
p.note{color:#555;margin:.3rem 0 1rem}
table{border-collapse:collapse;font-size:.88rem;width:100%}
th,td{padding:.25rem .6rem;text-align:right;border-bottom:1px solid #eee;white-space:nowrap}
th{color:#555;font-weight:600}td:first-child,th:first-child{text-align:left;white-space:normal}
.bad{color:#b00020;font-weight:600}.chart{max-width:100%;height:auto}
.legend{font-size:.88rem;margin:.2rem 0 1rem 4.5rem}.legend span{margin-right:1.2rem;white-space:nowrap}
.legend i{display:inline-block;width:.8rem;height:.8rem;margin-right:.35rem;vertical-align:-.1rem}
.wide{overflow-x:auto}";

impl Page {
    /// A page with a title.
    pub fn new(title: &str) -> Page {
        let title = escape(title);
        Page(format!(
            "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
             <title>{title}</title><style>{STYLE}</style></head><body><h1>{title}</h1>"
        ))
    }

    /// A heading, and what is to be seen below it.
    pub fn section(&mut self, title: &str, note: &str) {
        let (title, note) = (escape(title), escape(note));
        write!(self.0, "<h2>{title}</h2><p class=\"note\">{note}</p>").expect("memory takes all");
    }

    pub fn note(&mut self, text: &str) {
        write!(self.0, "<p class=\"note\">{}</p>", escape(text)).expect("memory takes all");
    }

    pub fn chart(&mut self, svg: &str) {
        self.0.push_str(svg);
    }

    /// A chart of lines, and what their colours mean.
    pub fn lines(&mut self, axes: &Axes<'_>, lines: &[Line]) -> anyhow::Result<()> {
        self.0.push_str(&chart::lines(axes, lines)?);
        self.0.push_str("<p class=\"legend\">");
        for (colour, name) in chart::legend(lines) {
            let name = escape(&name);
            write!(self.0, "<span><i style=\"background:{colour}\"></i>{name}</span> ").expect("memory takes all");
        }
        self.0.push_str("</p>");
        Ok(())
    }

    /// A table; cells that begin with `!` are bad news.
    pub fn table(&mut self, head: &[&str], rows: &[Vec<String>]) {
        self.0.push_str("<div class=\"wide\"><table><tr>");
        for cell in head {
            write!(self.0, "<th>{}</th>", escape(cell)).expect("memory takes all");
        }
        for row in rows {
            self.0.push_str("</tr><tr>");
            for cell in row {
                let written = match cell.strip_prefix('!') {
                    Some(bad) => write!(self.0, "<td class=\"bad\">{}</td>", escape(bad)),
                    None => write!(self.0, "<td>{}</td>", escape(cell)),
                };
                written.expect("memory takes all");
            }
        }
        self.0.push_str("</tr></table></div>");
    }

    pub fn finish(self) -> String {
        self.0 + "</body></html>\n"
    }
}

/// Text that cannot be taken for markup.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_text() {
        let mut page = Page::new("a < b");
        page.table(&["name"], &[vec!["<script>".into()], vec!["!broken".into()]]);
        let text = page.finish();
        assert!(text.contains("<h1>a &lt; b</h1>") && text.contains("<td>&lt;script&gt;</td>"), "{text}");
        assert!(text.contains("<td class=\"bad\">broken</td>") && text.ends_with("</html>\n"), "{text}");
    }
}
