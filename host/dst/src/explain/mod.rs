//! A world explained: what happened in it as a timeline to be read, in a terminal or on a page.

mod page;
mod timeline;

pub use page::page;
pub use timeline::Timeline;
