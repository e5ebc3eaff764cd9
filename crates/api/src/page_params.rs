//! The parameters every list takes, for the OpenAPI document.

use utoipa::IntoParams;

#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "describes what page::List reads")]
pub(crate) struct PageParams {
    /// How many at most. A page of large rows has fewer, about a mebibyte: go on by `next_cursor` until it is null.
    #[param(minimum = 1, maximum = 200, default = 50)]
    limit: Option<u32>,
    #[param(value_type = Option<contract::schema::Cursor>)]
    cursor: Option<String>,
}
