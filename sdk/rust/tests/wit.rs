//! The WIT text inside this crate is the repository's: users get the crate alone.

#[test]
fn the_copy_is_identical() {
    assert_eq!(
        include_str!("../wit/guest.wit"),
        include_str!("../../../wit/guest.wit"),
        "copy wit/guest.wit to sdk/rust/wit/"
    );
}
