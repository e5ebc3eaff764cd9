use proptest::prelude::*;
use serde_json::{Map, json};

use super::*;

/// An `order.created` with a header and some metadata, about this data.
fn seen<T>(data: Option<&Value>, look: impl FnOnce(&Subject<'_>) -> T) -> T {
    let (headers, metadata) = (json!({"x-tier": "gold"}), json!({"region": "eu"}));
    let data = data.map(Document::of);
    look(&Subject {
        event_type: "order.created",
        data: data.as_ref(),
        headers: &headers,
        metadata: &metadata,
    })
}

fn check(filter: Value, data: Value, expected: bool) {
    let compiled = Filter::compile(&filter).unwrap();
    assert_eq!(seen(Some(&data), |subject| compiled.matches(subject)), expected, "{filter} on {data}");
    assert_eq!(seen(Some(&data), |subject| compiled.explain(subject)).is_none(), expected);
}

/// What is said of `data.v`, against values that it should hold of and values that it should not.
fn holds(said: Value, yes: &[Value], no: &[Value]) {
    let filter = json!({"data": {"v": said}});
    yes.iter().for_each(|value| check(filter.clone(), json!({"v": value}), true));
    no.iter().for_each(|value| check(filter.clone(), json!({"v": value}), false));
}

fn missing(said: Value, expected: bool) {
    check(json!({"data": {"v": said}}), json!({}), expected);
    check(json!({"data": {"v": {"w": said}}}), json!({"v": 5}), expected);
}

fn refused(filter: Value) -> (String, &'static str) {
    let error = Filter::compile(&filter).unwrap_err();
    assert!(!error.detail.is_empty());
    (error.pointer, error.code)
}

#[test]
fn a_plain_value_is_equal_and_of_the_same_type() {
    holds(json!("1"), &[json!("1")], &[json!(1), json!("11"), json!(null), json!({"v": "1"})]);
    holds(json!(1), &[json!(1), json!(1.0)], &[json!("1"), json!(true), json!(1.5)]);
    holds(json!(null), &[json!(null)], &[json!(false), json!(0), json!("")]);
    holds(json!(true), &[json!(true)], &[json!(false), json!("true"), json!(1)]);
}

#[test]
fn numbers_compare_exactly_however_large() {
    let large = 9_007_199_254_740_993_u64; // 2^53 + 1, which no float can say
    holds(json!(large), &[json!(large)], &[json!(large - 1), json!(9_007_199_254_740_992.0)]);
    holds(json!({"$gt": 9_007_199_254_740_992.0}), &[json!(large)], &[json!(large - 1)]);
    holds(json!({"$gt": u64::MAX}), &[json!(1e300)], &[json!(u64::MAX), json!(-1e300), json!(i64::MIN)]);
    holds(json!({"$lt": -0.5}), &[json!(-1), json!(i64::MIN), json!(-1e300)], &[json!(0), json!(-0.5)]);
}

#[test]
fn all_keys_must_hold_and_objects_match_in_part() {
    let data = json!({"a": 1, "b": {"c": "x", "d": 2}, "e": 3});
    check(json!({"data": {"a": 1, "b": {"c": "x"}}}), data.clone(), true);
    check(json!({"data": {"a": 1, "b": {"c": "y"}}}), data.clone(), false);
    check(json!({"data": {"b": {"$eq": {"c": "x"}}}}), data.clone(), false);
    check(json!({"data": {"b": {"$eq": {"d": 2.0, "c": "x"}}}}), data.clone(), true);
    check(json!({}), data.clone(), true);
    check(json!({"data": {"b": {}}}), data.clone(), true);
    check(json!({"data": {"z": {}}}), data, false);
}

#[test]
fn type_headers_and_metadata_are_looked_at_too() {
    for (filter, expected) in [
        (json!({"type": "order.created"}), true),
        (json!({"type": {"$startsWith": "order."}}), true),
        (json!({"type": {"$in": ["a", "b"]}}), false),
        (json!({"type": {"deeper": {"$exist": false}}}), true),
        (json!({"headers": {"x-tier": "gold"}}), true),
        (json!({"headers": {"X-Tier": "gold"}}), true),
        (json!({"headers": {"$or": [{"X-Tier": "gold"}]}}), true),
        (json!({"metadata": {"region": {"$neq": "eu"}}}), false),
    ] {
        check(filter, json!({}), expected);
    }
}

#[test]
fn comparisons_stay_within_their_type() {
    holds(
        json!({"$gte": 100}),
        &[json!(100), json!(100.5)],
        &[json!(99), json!("200"), json!(null), json!({})],
    );
    holds(json!({"$lt": "b"}), &[json!("a"), json!("")], &[json!("b"), json!(1), json!(true)]);
    holds(json!({"$gt": 1, "$lte": 3}), &[json!(2), json!(3)], &[json!(1), json!(4)]);
    holds(json!({"$startsWith": "ab"}), &[json!("abc")], &[json!("b"), json!(12)]);
    holds(json!({"$endsWith": "bc"}), &[json!("abc")], &[json!("b"), json!(null)]);
}

#[test]
fn sets_hold_of_any_of_their_values() {
    let set = json!(["b", "a", 7, 3, null, true]);
    let (yes, no) =
        ([json!("a"), json!(7.0), json!(null), json!(true)], [json!("c"), json!(4), json!(false), json!({})]);
    holds(json!({"$in": set}), &yes, &no);
    holds(json!({"$nin": set}), &no, &yes);
    holds(json!({"$in": []}), &[], &yes);
}

#[test]
fn in_with_a_string_holds_of_what_contains_it() {
    let (yes, no) = (
        [json!("text"), json!("ex"), json!(["ex", "b"]), json!([["ex"]])],
        [json!("x"), json!(["text"]), json!(1), json!(null), json!({"ex": "ex"}), json!([])],
    );
    holds(json!({"$in": "ex"}), &yes, &no);
    holds(json!({"$nin": "ex"}), &no, &yes);
    holds(json!({"$in": ""}), &[json!("a"), json!("")], &[json!(0)]);
    holds(json!({"$in": "me", "$endsWith": "xt"}), &[json!("some-text")], &[json!("some"), json!("text")]);
    holds(
        json!({"s": {"$in": "b"}, "n": 1}),
        &[json!([{"s": "abc", "n": 1}])],
        &[json!([{"s": "abc"}, {"n": 1}])],
    );
    check(json!({"type": {"$in": "created"}, "headers": {"x-tier": {"$nin": "silver"}}}), json!({}), true);
}

#[test]
fn a_list_of_beginnings_or_ends_holds_of_any_of_them() {
    holds(
        json!({"$startsWith": ["ab", "c"]}),
        &[json!("abc"), json!("cd"), json!(["x", "cd"])],
        &[json!("b"), json!(1)],
    );
    holds(json!({"$endsWith": ["ab", "c"]}), &[json!("cab"), json!("c")], &[json!("a"), json!(null)]);
    holds(json!({"$startsWith": []}), &[], &[json!("a"), json!("")]);
}

#[test]
fn an_array_matches_if_one_element_does() {
    holds(json!("a"), &[json!(["b", "a"]), json!([["a"]])], &[json!([]), json!(["b"])]);
    holds(json!({"$gt": 5, "$lt": 10}), &[json!([1, 7])], &[json!([3, 20])]);
    holds(
        json!({"$eq": [1, 2]}),
        &[json!([1, 2]), json!([[1, 2], 3])],
        &[json!([2, 1]), json!([1]), json!(1)],
    );
    holds(
        json!({"sku": "x", "price": {"$gt": 5}}),
        &[json!([{"sku": "x", "price": 6}])],
        &[json!([{"sku": "x", "price": 1}, {"sku": "y", "price": 6}]), json!([])],
    );
}

#[test]
fn a_negation_on_an_array_denies_the_positive() {
    let (without, with) = ([json!(["b"]), json!([]), json!("b")], [json!(["b", "a"]), json!("a")]);
    holds(json!({"$neq": "a"}), &without, &with);
    holds(json!({"$nin": ["a", "z"]}), &without, &with);
    holds(json!({"$not": "a"}), &without, &with);
    holds(json!({"$not": {"s": "bad"}}), &[json!([{"s": "ok"}])], &[json!([{"s": "ok"}, {"s": "bad"}])]);
    holds(
        json!({"s": {"$neq": "bad"}}),
        &[json!([{"s": "ok"}, {"s": "bad"}])],
        &[json!([{"s": "bad"}]), json!([])],
    );
}

#[test]
fn a_plain_array_wants_an_array_that_has_all_of_these() {
    holds(json!(["a", "b"]), &[json!(["b", "x", "a"])], &[json!(["a"]), json!("a"), json!([])]);
    holds(json!([]), &[json!([]), json!([1])], &[json!(1)]);
    missing(json!([]), false);
}

#[test]
fn on_a_missing_path_only_absence_holds() {
    for (said, expected) in [
        (json!({"$exist": false}), true),
        (json!({"$neq": 1}), true),
        (json!({"$nin": [1]}), true),
        (json!({"$nin": "a"}), true),
        (json!({"$in": "a"}), false),
        (json!({"$not": 1}), true),
        (json!({"$not": {"$gt": 1}}), true),
        (json!({"$exist": true}), false),
        (json!({"$not": {"$exist": false}}), false),
        (json!(null), false),
        (json!({}), false),
        (json!({"$eq": null}), false),
        (json!({"$lt": 1}), false),
        (json!({"$in": [null]}), false),
        (json!({"$startsWith": ""}), false),
        (json!({"$or": [1, 2]}), false),
    ] {
        missing(said, expected);
    }
    holds(json!({"$exist": true}), &[json!(null), json!([]), json!(0)], &[]);
}

#[test]
fn a_payload_that_is_not_json_has_no_data() {
    for (filter, expected) in [
        (json!({"data": {"a": 1}}), false),
        (json!({"data": {"$exist": false}}), true),
        (json!({"data": {}}), false),
    ] {
        let compiled = Filter::compile(&filter).unwrap();
        assert_eq!(seen(None, |subject| compiled.matches(subject)), expected, "{filter}");
    }
}

#[test]
fn logic_works_at_every_level() {
    let data = json!({"a": 1, "b": "x"});
    for (filter, expected) in [
        (json!({"$or": [{"data": {"a": 2}}, {"type": "order.created"}]}), true),
        (json!({"$and": [{"data": {"a": 1}}, {"data": {"b": "y"}}]}), false),
        (json!({"$not": {"data": {"a": 1}}}), false),
        (json!({"data": {"$or": [{"a": 2}, {"b": "x"}]}}), true),
        (json!({"data": {"a": {"$or": [7, {"$lt": 2}]}}}), true),
        (json!({"data": {"a": {"$and": [{"$gt": 0}, {"$not": {"$gte": 1}}]}}}), false),
        (json!({"type": "order.created", "$not": {"metadata": {"region": "us"}}}), true),
    ] {
        check(filter, data.clone(), expected);
    }
}

#[test]
fn a_mismatch_names_the_path_what_was_wanted_and_what_was_there() {
    let data = json!({"amount": 90, "tags": ["a"], "customer": {"country": "DE"}});
    for (filter, path, expected, found) in [
        (
            json!({"type": "order.created", "data": {"amount": {"$gte": 100}}}),
            "data.amount",
            json!({"$gte": 100}),
            json!(90),
        ),
        (json!({"data": {"customer": {"country": "CH"}}}), "data.customer.country", json!("CH"), json!("DE")),
        (json!({"data": {"amount": {"$gt": 1, "$lt": 5}}}), "data.amount", json!({"$lt": 5}), json!(90)),
        (json!({"data": {"tags": {"$neq": "a"}}}), "data.tags", json!({"$neq": "a"}), json!(["a"])),
        (
            json!({"data": {"tags": {"$nin": ["z", "a"]}}}),
            "data.tags",
            json!({"$nin": ["z", "a"]}),
            json!(["a"]),
        ),
        (json!({"data": {"tags": ["a", "b"]}}), "data.tags", json!(["a", "b"]), json!(["a"])),
        (json!({"data": {"tags": {"$nin": "a"}}}), "data.tags", json!({"$nin": "a"}), json!(["a"])),
        (json!({"data": {"tags": {"$in": "b"}}}), "data.tags", json!({"$in": "b"}), json!(["a"])),
        (
            json!({"data": {"tags": {"x": 1, "y": {"$gt": 2}}}}),
            "data.tags",
            json!({"x": 1, "y": {"$gt": 2}}),
            json!(["a"]),
        ),
        (json!({"$and": [{"type": "x"}]}), "type", json!("x"), json!("order.created")),
    ] {
        let why = seen(Some(&data), |subject| Filter::compile(&filter).unwrap().explain(subject));
        assert_eq!(why, Some(Mismatch { path: path.into(), expected, found: Some(found) }), "{filter}");
    }
    let filter = json!({"data": {"absent": {"deep": 1}}});
    let why = seen(Some(&data), |subject| Filter::compile(&filter).unwrap().explain(subject)).unwrap();
    assert_eq!((why.path.as_str(), why.found), ("data.absent.deep", None));
    let filter = json!({"$or": [{"type": "a"}, {"data": {"amount": 1}}]});
    let why = seen(Some(&data), |subject| Filter::compile(&filter).unwrap().explain(subject)).unwrap();
    assert_eq!(why, Mismatch { path: "$or".into(), expected: filter, found: None });
}

#[test]
fn a_wrong_document_is_refused_with_its_place() {
    for (filter, pointer, code) in [
        (json!([]), "", "invalid_value"),
        (json!("order.*"), "", "invalid_value"),
        (json!({"amount": 1}), "/amount", "unknown_field"),
        (json!({"$or": [{"type": "a"}, {"b": 1}]}), "/$or/1/b", "unknown_field"),
        (json!({"$or": [1]}), "/$or/0", "invalid_value"),
        (json!({"$or": []}), "/$or", "invalid_value"),
        (json!({"$gt": 1}), "/$gt", "invalid_value"),
        (json!({"data": {"a/b": {"$regex": "x"}}}), "/data/a~1b/$regex", "unknown_operator"),
        (json!({"$nor": []}), "/$nor", "unknown_operator"),
        (json!({"data": {"a": {"$gt": true}}}), "/data/a/$gt", "invalid_value"),
        (json!({"data": {"a": {"$in": 1}}}), "/data/a/$in", "invalid_value"),
        (json!({"data": {"a": {"$nin": [{}]}}}), "/data/a/$nin", "invalid_value"),
        (json!({"data": {"a": {"$exist": 1}}}), "/data/a/$exist", "invalid_value"),
        (json!({"data": {"a": {"$startsWith": 1}}}), "/data/a/$startsWith", "invalid_value"),
        (json!({"data": {"a": {"$endsWith": ["x", 1]}}}), "/data/a/$endsWith", "invalid_value"),
    ] {
        assert_eq!(refused(filter), (pointer.to_string(), code));
    }
    let error = Filter::compile(&json!({"data": {"a": {"$regex": "x"}}})).unwrap_err();
    assert!(error.to_string().contains("`$regex`"), "{error}");
}

#[test]
fn a_word_with_a_dollar_is_an_operator_or_refused_and_never_compared_as_data() {
    for (said, pointer, code) in [
        (json!({"$ref": "b"}), "/$ref", "unknown_operator"),
        (json!({"$eq": {"$ref": "b"}}), "/$eq/$ref", "unknown_operator"),
        (json!({"$neq": [{"c": {"$x": 1}}]}), "/$neq/0/c/$x", "unknown_operator"),
        (json!({"$gt": {"$ref": "b"}}), "/$gt/$ref", "unknown_operator"),
        (json!({"$nin": [{"$ref": "b"}]}), "/$nin/0/$ref", "unknown_operator"),
        (json!({"$not": {"$eq": {"$ref": "b"}}}), "/$not/$eq/$ref", "unknown_operator"),
        (json!({"$eq": {"$gt": 1}}), "/$eq/$gt", "invalid_value"),
        (json!({"$": 1}), "/$", "unknown_operator"),
    ] {
        assert_eq!(refused(json!({"data": {"a": said}})), (format!("/data/a{pointer}"), code), "{said}");
    }
}

#[test]
fn a_filter_has_at_most_4_kib_64_clauses_and_16_levels() {
    let text = |length| json!({"type": "x".repeat(length)});
    assert!(Filter::compile(&text(4096 - 11)).is_ok());
    assert_eq!(refused(text(4096 - 10)).1, "too_large");

    let clauses = |count: usize| json!({"data": (0..count).map(|n| (format!("k{n}"), json!(n))).collect::<Map<_, _>>()});
    assert!(Filter::compile(&clauses(64)).is_ok());
    assert_eq!(refused(clauses(65)), ("/data/k64".to_string(), "too_many_clauses"));

    let nested =
        |levels| json!({"data": (2..levels).fold(json!({"x": 1}), |inside, _| json!({"x": inside}))});
    assert!(Filter::compile(&nested(16)).is_ok());
    assert_eq!(refused(nested(17)).1, "too_deep");
    assert_eq!(refused(nested(100)).1, "too_deep");
}

#[test]
fn an_event_that_takes_too_many_comparisons_does_not_match_and_says_so() {
    let numbers = |count: usize| json!({"v": vec![1; count]});
    check(json!({"data": {"v": {"$neq": 2}}}), numbers(FILTER_MAX_STEPS), true);
    check(json!({"data": {"v": {"$neq": 2}}}), numbers(FILTER_MAX_STEPS + 1), false);
    check(json!({"data": {"v": {"$not": {"$gt": 2, "$lt": 9}}}}), numbers(FILTER_MAX_STEPS), false);
    check(json!({"data": {"v": 1}}), numbers(FILTER_MAX_STEPS + 1), true);
    let filter = Filter::compile(&json!({"data": {"v": 2}})).unwrap();
    let why = seen(Some(&numbers(FILTER_MAX_STEPS + 1)), |subject| filter.explain(subject)).unwrap();
    assert!(why.expected.as_str().unwrap().contains("50000 comparisons"), "{why:?}");

    let text = |length: usize| json!({"v": "a".repeat(length)});
    let longest = FILTER_STEP_TEXT_BYTES * FILTER_MAX_STEPS - 1;
    check(json!({"data": {"v": {"$nin": "b"}}}), text(longest), true);
    check(json!({"data": {"v": {"$nin": "b"}}}), text(longest + 1), false);
    let starts: Vec<_> = (0..200).map(|n| format!("b{n}")).collect();
    let texts = |count: usize| json!({"v": vec![json!({"t": "a"}); count]});
    check(json!({"data": {"v": {"$not": {"t": {"$startsWith": starts}}}}}), texts(250), true);
    check(json!({"data": {"v": {"$not": {"t": {"$startsWith": starts}}}}}), texts(251), false);
}

#[test]
fn a_filter_is_its_document_in_json() {
    let text = r#"{"type":"a","data":{"b":{"$in":[2,1]}}}"#;
    let filter: Filter = serde_json::from_str(text).unwrap();
    assert_eq!(serde_json::to_string(&filter).unwrap(), text);
    assert_eq!(filter.source()["type"], "a");
    let error = serde_json::from_str::<Filter>(r#"{"data":{"a":{"$x":1}}}"#).unwrap_err();
    assert!(error.to_string().contains("/data/a/$x"), "{error}");
}

#[test]
fn every_example_of_the_documentation_is_true() {
    let page = include_str!("../../../../docs/filters.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")).collect::<Vec<_>>();
    let mut words: Vec<_> = compiler::OPERATORS.split(' ').collect();
    for row in rows {
        let [said, yes, no] = *row.split(" | ").collect::<Vec<_>>() else { panic!("three cells: {row}") };
        let said: Value = serde_json::from_str(said.trim_end_matches('`')).unwrap();
        words.retain(|word| !said.to_string().contains(&format!("\"{word}\"")));
        let filter = json!({"data": {"v": said}});
        for (cell, expected) in [(yes, true), (no.trim_end_matches(" |"), false)] {
            for (index, example) in cell.split('`').enumerate() {
                match index % 2 {
                    1 => check(
                        filter.clone(),
                        json!({"v": serde_json::from_str::<Value>(example).unwrap()}),
                        expected,
                    ),
                    _ if example.contains("missing") => check(filter.clone(), json!({}), expected),
                    _ => {}
                }
            }
        }
    }
    assert_eq!(words, Vec::<&str>::new(), "these operators have no example");
}

/// The rules of the module's page, read straight off the document; the event is just an object.
fn naive(document: &Value, value: Option<&Value>) -> bool {
    let members = match document {
        Value::Object(members) if members.is_empty() => return value.is_some(),
        Value::Object(members) => members,
        Value::Array(wanted) => {
            return value.is_some_and(Value::is_array)
                && wanted.iter().all(|document| naive(document, value));
        }
        plain => return with_elements(value).into_iter().flatten().any(|one| equal(plain, one)),
    };
    let about_the_whole = |key: &str, said: &Value| match key {
        "$in" => said.is_string(),
        _ => matches!(key, "$or" | "$and" | "$not" | "$neq" | "$nin" | "$exist"),
    };
    let (whole, one): (Vec<_>, Vec<_>) = members.iter().partition(|(key, said)| about_the_whole(key, said));
    let list = |said: &Value| said.as_array().unwrap().clone();
    let whole = whole.into_iter().all(|(key, said)| match key.as_str() {
        "$or" => list(said).iter().any(|document| naive(document, value)),
        "$and" => list(said).iter().all(|document| naive(document, value)),
        "$not" => !naive(said, value),
        "$neq" => !naive(&json!({"$eq": said}), value),
        "$nin" => !naive(&json!({"$in": said}), value),
        "$in" => match value {
            Some(Value::String(text)) => text.contains(said.as_str().unwrap()),
            _ => naive(said, value),
        },
        _ => value.is_some() == said.as_bool().unwrap(),
    });
    let one_holds = |candidate: Option<&Value>| {
        one.iter().all(|(key, said)| match (key.as_str(), candidate) {
            (key, Some(Value::Array(_))) if !key.starts_with('$') => false,
            (key, _) if !key.starts_with('$') => naive(said, candidate.and_then(|value| value.get(key))),
            (_, None) => false,
            ("$eq", Some(found)) => equal(said, found),
            ("$in", Some(found)) => list(said).iter().any(|said| equal(said, found)),
            ("$startsWith", Some(found)) => {
                found.as_str().is_some_and(|t| any_of(said).iter().any(|s| t.starts_with(s)))
            }
            ("$endsWith", Some(found)) => {
                found.as_str().is_some_and(|t| any_of(said).iter().any(|s| t.ends_with(s)))
            }
            (comparison, Some(found)) => {
                let order = match (found, said) {
                    (Value::Number(a), Value::Number(b)) => a.as_f64().partial_cmp(&b.as_f64()),
                    (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
                    _ => None,
                };
                order.is_some_and(|order| match comparison {
                    "$gt" => order.is_gt(),
                    "$gte" => order.is_ge(),
                    "$lt" => order.is_lt(),
                    _ => order.is_le(),
                })
            }
        })
    };
    whole && (one.is_empty() || with_elements(value).into_iter().any(one_holds))
}

fn any_of(said: &Value) -> Vec<&str> {
    match said.as_array() {
        Some(list) => list.iter().filter_map(Value::as_str).collect(),
        None => vec![said.as_str().unwrap()],
    }
}

fn with_elements(value: Option<&Value>) -> Vec<Option<&Value>> {
    let mut all = vec![value];
    for element in value.and_then(Value::as_array).into_iter().flatten() {
        all.extend(with_elements(Some(element)));
    }
    all
}

fn equal(a: &Value, b: &Value) -> bool {
    fn plain(value: &Value) -> Value {
        match value {
            Value::Number(number) => json!(number.as_f64()),
            Value::Array(elements) => elements.iter().map(plain).collect(),
            Value::Object(members) => members.iter().map(|(k, v)| (k.clone(), plain(v))).collect(),
            other => other.clone(),
        }
    }
    plain(a) == plain(b)
}

fn scalar() -> impl Strategy<Value = Value> + Clone {
    prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Value::from),
        (-2i64..4).prop_map(Value::from),
        (-3i64..5).prop_map(|n| json!(n as f64 / 2.0)),
        "[ab]{0,2}".prop_map(Value::from),
    ]
}

fn value() -> impl Strategy<Value = Value> + Clone {
    scalar().prop_recursive(3, 16, 3, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec(("[abc]", inner), 0..4)
                .prop_map(|m| Value::Object(m.into_iter().collect())),
        ]
    })
}

fn clause(inner: impl Strategy<Value = Value> + Clone + 'static) -> impl Strategy<Value = (String, Value)> {
    let key = |word: &'static str| move |value: Value| (word.to_string(), value);
    let list =
        |of: BoxedStrategy<Value>, least| proptest::collection::vec(of, least..4).prop_map(Value::from);
    let operand =
        || prop_oneof![(-2i64..4).prop_map(Value::from), Just(json!(0.5)), "[ab]{0,2}".prop_map(Value::from)];
    let text = || "[ab]{0,1}".prop_map(Value::from);
    prop_oneof![
        4 => ("[abc]", inner.clone()),
        1 => value().prop_map(key("$eq")),
        1 => value().prop_map(key("$neq")),
        1 => operand().prop_map(key("$gt")),
        1 => operand().prop_map(key("$gte")),
        1 => operand().prop_map(key("$lt")),
        1 => operand().prop_map(key("$lte")),
        1 => list(scalar().boxed(), 0).prop_map(key("$in")),
        1 => list(scalar().boxed(), 0).prop_map(key("$nin")),
        1 => text().prop_map(key("$in")),
        1 => text().prop_map(key("$nin")),
        1 => text().prop_map(key("$startsWith")),
        1 => text().prop_map(key("$endsWith")),
        1 => list(text().boxed(), 0).prop_map(key("$startsWith")),
        1 => list(text().boxed(), 0).prop_map(key("$endsWith")),
        1 => any::<bool>().prop_map(|wanted| ("$exist".to_string(), json!(wanted))),
        1 => inner.clone().prop_map(key("$not")),
        1 => list(inner.clone().boxed(), 1).prop_map(key("$or")),
        1 => list(inner.boxed(), 1).prop_map(key("$and")),
    ]
}

fn document() -> impl Strategy<Value = Value> {
    let node = scalar().prop_recursive(4, 24, 3, |inner| {
        let object = proptest::collection::vec(clause(inner.clone()), 0..3);
        prop_oneof![
            4 => object.prop_map(|m| Value::Object(m.into_iter().collect())),
            1 => proptest::collection::vec(inner, 0..3).prop_map(Value::from),
        ]
    });
    let top = (prop_oneof![3 => Just("data"), 1 => Just("metadata"), 1 => Just("type")], node);
    proptest::collection::vec(top, 1..3).prop_flat_map(|members| {
        let object = Value::Object(members.into_iter().map(|(key, node)| (key.to_string(), node)).collect());
        prop_oneof![
            Just(object.clone()),
            Just(json!({"$not": object})),
            Just(json!({"$or": [object, {"type": "b"}]})),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn agrees_with_a_naive_reading(
        document in document(),
        data in proptest::option::of(value()),
        metadata in value(),
        event_type in "[ab]{1,2}",
    ) {
        let Ok(filter) = Filter::compile(&document) else { return Ok(()) };
        let headers = json!({});
        let read = data.as_ref().map(Document::of);
        let subject = Subject { event_type: &event_type, data: read.as_ref(), headers: &headers, metadata: &metadata };
        let mut event = json!({"type": event_type, "headers": {}, "metadata": metadata});
        if let Some(data) = &data {
            event["data"] = data.clone();
        }
        let matches = filter.matches(&subject);
        prop_assert_eq!(matches, naive(&document, Some(&event)), "{} on {}", document, event);
        prop_assert_eq!(filter.explain(&subject).is_none(), matches);
    }

    #[test]
    fn any_json_is_a_filter_or_an_error_and_never_a_panic(document in value()) {
        let _ = Filter::compile(&json!({"data": document}));
        let _ = Filter::compile(&document);
    }
}
