//! Small pictures beside words, drawn here so that they look the same in every font.

use maud::{Markup, html};

macro_rules! icons {
    ($($name:ident $path:literal;)*) => {$(
        pub(crate) fn $name() -> Markup { drawn($path) }
    )*};
}

icons! {
    check "M3 8.5l3.2 3.2L13 4.8";
    cross "M4 4l8 8M12 4l-8 8";
    retry "M12.6 6A5 5 0 1 0 13 9M13 3v3.4H9.6";
    clock "M8 2.5a5.5 5.5 0 1 0 0 11a5.5 5.5 0 0 0 0-11M8 5v3.2l2.2 1.3";
    pause "M5.5 3.5v9M10.5 3.5v9";
    play "M5 3.5l7 4.5l-7 4.5z";
    stop "M8 2.5a5.5 5.5 0 1 0 0 11a5.5 5.5 0 0 0 0-11M4.2 11.8l7.6-7.6";
    send "M2.5 8h10M8.5 4l4 4l-4 4";
    bolt "M9 2L3.5 9H8l-1 5l5.5-7H8z";
    waiting "M8 2.5a5.5 5.5 0 1 0 5.5 5.5H8z";
    warning "M8 2.5L14 13H2zM8 6.5v3M8 11.2v.3";
    copy "M5.5 5.5h7v7h-7zM10.5 5.5v-2h-7v7h2";
    search "M7 2.8a4.2 4.2 0 1 0 0 8.4a4.2 4.2 0 0 0 0-8.4M10.2 10.2L13.5 13.5";
    sun "M8 5.2a2.8 2.8 0 1 0 0 5.6a2.8 2.8 0 0 0 0-5.6M8 1.5v1.6M8 12.9v1.6M1.5 8h1.6M12.9 8h1.6M3.4 3.4l1.1 1.1M11.5 11.5l1.1 1.1M3.4 12.6l1.1-1.1M11.5 4.5l1.1-1.1";
    help "M8 2.5a5.5 5.5 0 1 0 0 11a5.5 5.5 0 0 0 0-11M6.4 6.4a1.7 1.7 0 1 1 2.3 1.8c-.5.3-.7.6-.7 1.2M8 11.3v.2";
    menu "M2.5 4.5h11M2.5 8h11M2.5 11.5h11";
}

fn drawn(path: &str) -> Markup {
    html! { svg.icon viewBox="0 0 16 16" aria-hidden="true" focusable="false" { path d=(path) {} } }
}
