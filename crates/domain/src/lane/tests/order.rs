//! What the torment cannot reach: it has too few deliveries, or no two things at once that are this far apart.

use super::*;

/// A strict lane before a small store.
struct Shop {
    lane: Lane<()>,
    rows: BTreeMap<Position, Delivery>,
}

impl Shop {
    fn new(rows: impl IntoIterator<Item = Delivery>) -> Self {
        let mut lane = Lane::default();
        lane.configured(strict(LaneMode::Deliver));
        lane.look(Position::START);
        Self { lane, rows: rows.into_iter().map(|row| (row.position, row)).collect() }
    }

    /// Reads whatever the lane asks for.
    fn serve(&mut self, now: Timestamp) {
        while let Some(query) = self.lane.wants_tracks() {
            let heads: BTreeMap<i64, TrackHead> = self
                .rows
                .values()
                .rev()
                .filter(|row| row.position.track >= query.from)
                .map(|row| (row.position.track, TrackHead { first: row.position, due_at: row.due_at }))
                .collect();
            self.lane.swept(&query, &heads.into_values().collect::<Vec<_>>(), true, now);
        }
        while let Some(query) = self.lane.wants(now) {
            let found = self.rows.range(query.from..).filter(|(place, _)| place.track <= query.last_track);
            let row = |(_, delivery): (&Position, &Delivery)| WindowRow {
                delivery: delivery.clone(),
                carried: (),
                track: self.lane.ordering().track(None, delivery.id),
            };
            let rows = found.take(query.limit).map(row).collect();
            self.lane.fetched(&query, rows, now);
        }
    }
}

fn strict(mode: LaneMode) -> LaneSettings {
    LaneSettings { ordering: Ordering::Strict, ..in_mode(mode) }
}

fn numbered(n: u128) -> Delivery {
    let position = Position::ordered(Position::STRICT, n as i64, id(n));
    Delivery { position, sequence: Some(n as i64), ..delivery(n) }
}

fn scheduled(n: u128, millis: i64) -> Delivery {
    Delivery { position: Position::awaits_time(at(millis), id(n)), ..due(n, millis) }
}

#[test]
fn however_many_are_scheduled_for_the_same_time_all_are_numbered() {
    let many = 3 * limits::NUMBERED_AT_ONCE + 7;
    let mut shop = Shop::new((1..=many as u128).map(|n| scheduled(n, 0)));
    let mut numbered = Vec::new();
    loop {
        shop.serve(at(0));
        let mut taken = Vec::new();
        while let Some(LaneAction::Number(loaded, track)) = shop.lane.next(u32::MAX, at(0)) {
            assert_eq!(track, Position::STRICT);
            taken.push(loaded.delivery);
        }
        assert!(taken.len() <= limits::NUMBERED_AT_ONCE, "no more at once than the store takes");
        if taken.is_empty() {
            break;
        }
        for delivery in taken {
            shop.rows.remove(&delivery.position);
            shop.lane.numbered(delivery.id, Position::ordered(Position::STRICT, Position::END, delivery.id));
            numbered.push(delivery.id);
        }
    }
    assert!(numbered.is_sorted() && numbered.len() == many, "{} of {many}", numbered.len());
}

#[test]
fn a_failure_does_not_hold_up_the_end_of_a_disabled_destination() {
    let mut shop = Shop::new((1..=40).map(numbered));
    shop.serve(at(0));
    assert_eq!(shop.lane.start(0), Some(id(1)));
    shop.lane.outdated();
    shop.lane.configured(strict(LaneMode::End { with: DISABLED, since: at(1) }));
    shop.lane.finish(1, Outcome::ServerError, 0, 2);
    let retried = Settled::Waits { position: numbered(1).position, due_at: at(60_000), spent: 1 };
    shop.lane.flushed(id(1), Position::STRICT, &retried, at(3));
    let mut ended = Vec::new();
    loop {
        shop.serve(at(4));
        let Some((id, ending)) = shop.lane.end_next(4) else { break };
        assert_eq!(ending, DISABLED);
        shop.rows.retain(|place, _| place.delivery_id != id);
        shop.lane.flushed(id, Position::STRICT, &Settled::Ended(ending), at(4));
        ended.push(id);
    }
    ended.sort_unstable();
    assert_eq!(ended, (1..=40).map(id).collect::<Vec<_>>());
}

#[test]
fn a_new_owner_ends_what_waits_for_a_time_far_ahead() {
    let mut shop = Shop::new([scheduled(1, 80 * 86_400_000)]);
    shop.lane.configured(strict(LaneMode::End { with: DISABLED, since: at(0) }));
    shop.serve(at(0));
    assert_eq!(shop.lane.end_next(0), Some((id(1), DISABLED)));
}

#[test]
fn a_scheduled_delivery_keeps_its_track_while_its_destination_is_read_again() {
    let mut shop = Shop::new([scheduled(1, 0)]);
    while let Some(query) = shop.lane.wants_tracks() {
        let head = TrackHead { first: scheduled(1, 0).position, due_at: at(0) };
        shop.lane.swept(&query, &[head], true, at(0));
    }
    let query = shop.lane.wants(at(0)).expect("to read the scheduled ones");
    shop.lane.outdated();
    let track = shop.lane.ordering().track(None, id(1));
    shop.lane.fetched(&query, vec![WindowRow { delivery: scheduled(1, 0), carried: (), track }], at(0));
    shop.lane.configured(strict(LaneMode::Deliver));
    let step = shop.lane.next(u32::MAX, at(0));
    assert!(matches!(step, Some(LaneAction::Number(_, Position::STRICT))), "{step:?}");
}

#[test]
fn what_was_read_before_the_order_changed_is_no_answer() {
    let mut lane = fetching_lane();
    lane.configured(strict(LaneMode::Deliver));
    lane.read(rows([1]), 16, at(0));
    assert_eq!((lane.loaded(), lane.fetching), (0, false));
    lane.configured(settings(2));
    assert!(lane.wants(at(0)).is_some(), "it looks again from the beginning");
}

#[test]
fn what_order_has_left_behind_does_not_hide_the_rest() {
    let mut lane = fetching_lane();
    let row = |delivery| WindowRow { delivery, carried: (), track: Position::UNORDERED };
    lane.fetched(&asked(16), vec![row(scheduled(1, 60_000))], at(0));
    assert_eq!(lane.wants(at(0)), None, "it is not asked for before its time");
    lane.look(Position::due(at(1), id(2)));
    assert!(lane.wants(at(1)).is_some(), "what is due is read");
    lane.read(rows([2]), 16, at(1));
    assert_eq!(lane.start(1), Some(id(2)));
    assert_eq!(lane.wake_at(at(2)), Some(at(60_000)));
    assert_eq!(lane.wants(at(60_000)).map(|query| query.from), Some(Position::START));
}

#[test]
fn a_word_about_one_row_says_nothing_of_those_before_it() {
    let mut shop = Shop::new([numbered(1)]);
    shop.serve(at(0));
    assert_eq!(shop.lane.start(0), Some(id(1)));
    shop.lane.finish(1, Outcome::Success, 0, 1);
    shop.rows.clear();
    shop.lane.flushed(id(1), Position::STRICT, &Settled::Ended(Ending::Delivered), at(1));
    // Two came that were not announced; the second is asked for.
    shop.rows.extend([numbered(2), numbered(3)].map(|row| (row.position, row)));
    shop.lane.look_at(numbered(3).position);
    shop.serve(at(2));
    assert_eq!(shop.lane.start(2), Some(id(2)));
}
