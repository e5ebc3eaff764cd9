//! The query of a page: every filter and every choice stands in its address. What is not known is passed over, so that an old
//! bookmark still opens.

/// Names and values, as they were given.
#[derive(Debug, Clone, Default)]
pub(crate) struct Params(Vec<(String, String)>);

impl Params {
    pub(crate) fn of(query: Option<&str>) -> Self {
        Self(url::form_urlencoded::parse(query.unwrap_or_default().as_bytes()).into_owned().collect())
    }

    /// The last one counts; one without anything in it is none.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().rev().find(|(known, _)| known == name);
        found.map(|(_, value)| value.trim()).filter(|value| !value.is_empty())
    }

    pub(crate) fn parse<T: std::str::FromStr>(&self, name: &str) -> Option<T> {
        self.get(name)?.parse().ok()
    }
}

/// A link with these parameters; those without a value are left out.
pub(crate) fn link(path: &str, parameters: &[(&str, Option<&str>)]) -> String {
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    for (name, value) in parameters {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            query.append_pair(name, value);
        }
    }
    match query.finish() {
        query if query.is_empty() => path.to_owned(),
        query => format!("{path}?{query}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_value_counts_and_an_empty_one_is_none() {
        let params = Params::of(Some("q=a&q=b+c&before="));
        assert_eq!((params.get("q"), params.get("before"), params.get("z")), (Some("b c"), None, None));
        assert_eq!(Params::of(Some("n=7")).parse::<u32>("n"), Some(7));
    }

    #[test]
    fn a_link_says_only_what_there_is_to_say() {
        assert_eq!(link("/events", &[("q", None), ("before", Some(""))]), "/events");
        assert_eq!(link("/events", &[("q", Some("a&b <c>"))]), "/events?q=a%26b+%3Cc%3E");
    }
}
