//! The clock of a node that has no database server to ask: this machine's wall clock when it started, carried on by
//! monotonic time. Due times, expiries and ids go by it.
//!
//! The wall clock is looked at whenever the time is asked. Steps of less than a second are followed. Anything larger is a
//! jump: somebody set the clock, or something broke it. It is logged and shown in `/readyz`, and nothing goes by it before
//! the clock has stayed there for a minute: a time service that is wrong for a moment expires nothing. Then a jump ahead
//! is followed. One back is not, as long as the process runs: what waits would wait as much longer. The time goes on
//! ahead of the wall clock, and only what others compare with theirs is told by the wall clock ([`Clock::to_wall`]).
//!
//! At a start nothing monotonic leads back to the last run, but the store knows the newest time it has: the clock never
//! begins before that. If the wall clock is behind it, one of the two is wrong, and the node is not ready until the wall
//! clock has passed it or an operator says that it may be (`--accept-clock`). It delivers meanwhile, by the later of the
//! two: nothing is late for it.

use domain::{
    limits,
    time::{Clock, ClockTrouble, Timestamp},
};
use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// What the machine says at one moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reading {
    pub(crate) monotonic: Duration,
    pub(crate) wall: Timestamp,
}

pub(crate) struct SteadyClock {
    read: Box<dyn Fn() -> Reading + Send + Sync>,
    state: Mutex<Reckoning>,
}

impl SteadyClock {
    /// `newest` is the newest time that the store has.
    pub(crate) fn start(newest: Option<Timestamp>, accepted: bool) -> Self {
        let started = Instant::now();
        Self::reading(newest, accepted, move || Reading {
            monotonic: started.elapsed(),
            wall: super::SystemClock.now(),
        })
    }

    fn reading(
        newest: Option<Timestamp>,
        accepted: bool,
        read: impl Fn() -> Reading + Send + Sync + 'static,
    ) -> Self {
        let first = read();
        let (wall, mono) = (first.wall.micros(), micros(first.monotonic));
        let newest = newest.unwrap_or(Timestamp::MIN);
        let state = Reckoning {
            offset: wall.max(newest.micros()) - mono,
            wall_offset: wall - mono,
            jump: None,
            told: wall.max(newest.micros()),
            behind: (!accepted && behind(newest, wall)).then_some(newest),
        };
        if let Some(trouble) = state.trouble(mono) {
            tracing::error!("{trouble}");
        }
        Self { read: Box::new(read), state: Mutex::new(state) }
    }

    fn look<T>(&self, tell: impl FnOnce(&mut Reckoning, i64) -> T) -> T {
        let reading = (self.read)();
        let mono = micros(reading.monotonic);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let noticed = state.look(reading.wall.micros(), mono);
        let told = tell(&mut state, mono);
        drop(state);
        match noticed {
            Some(Noticed::Jump(seconds)) => tracing::error!(
                seconds,
                "this machine's clock was set; it is not followed before it has stayed there for a minute"
            ),
            Some(Noticed::Back) => tracing::info!("this machine's clock is back where it was"),
            Some(Noticed::Followed) => {
                tracing::warn!("this machine's clock is followed: it has stayed where it is")
            }
            Some(Noticed::Kept) => tracing::warn!(
                "this machine's clock stays set back; this process goes on by its own time, so that nothing is late"
            ),
            Some(Noticed::Passed) => {
                tracing::info!("this machine's clock has passed the newest time in the store")
            }
            None => {}
        }
        told
    }
}

impl Clock for SteadyClock {
    fn now(&self) -> Timestamp {
        self.look(|state, mono| {
            state.told = state.told.max(state.offset + mono);
            Timestamp::from_micros(state.told)
        })
    }

    /// The store's clock is this machine's: a regular moment to look at it, also where nothing else happens.
    fn sync(&self, _store_now: Timestamp) {
        self.look(|_, _| ());
    }

    fn to_wall(&self, moment: Timestamp) -> Timestamp {
        let ahead = self.look(|state, _| state.offset - state.wall_offset);
        // Less is no set clock, but one that is about to be followed.
        if ahead > STEP { Timestamp::from_micros(moment.micros() - ahead) } else { moment }
    }

    fn trouble(&self) -> Option<ClockTrouble> {
        self.look(|state, mono| state.trouble(mono))
    }
}

/// A step of less than this is no jump: a time service corrects that much, and nothing is due so exactly.
const STEP: i64 = 1_000_000;

/// All in microseconds; an offset is a time less the monotonic time of the same moment.
struct Reckoning {
    /// Of the time that is told. Never less by more than a step.
    offset: i64,
    /// Of the wall clock, as it is believed.
    wall_offset: i64,
    jump: Option<Jump>,
    /// The latest time told.
    told: i64,
    /// The newest time in the store, until the wall clock has passed it.
    behind: Option<Timestamp>,
}

/// Where the wall clock is, and since when.
struct Jump {
    wall_offset: i64,
    since: i64,
}

enum Noticed {
    /// By so many seconds.
    Jump(i64),
    Back,
    Followed,
    Kept,
    Passed,
}

impl Reckoning {
    fn look(&mut self, wall: i64, mono: i64) -> Option<Noticed> {
        let found = wall - mono;
        let mut noticed = self.judge(found, mono);
        if self.behind.is_some_and(|newest| !behind(newest, wall)) {
            self.behind = None;
            noticed = Some(Noticed::Passed);
        }
        if self.wall_offset >= self.offset - STEP {
            self.offset = self.wall_offset;
        }
        noticed
    }

    fn judge(&mut self, found: i64, mono: i64) -> Option<Noticed> {
        if (found - self.wall_offset).abs() <= STEP {
            self.wall_offset = found;
            return self.jump.take().map(|_| Noticed::Back);
        }
        match &mut self.jump {
            Some(jump) if (found - jump.wall_offset).abs() <= STEP => {
                jump.wall_offset = found;
                if mono - jump.since < micros(limits::CLOCK_CONFIRMED) {
                    return None;
                }
                self.wall_offset = found;
                self.jump = None;
                Some(if found >= self.offset - STEP { Noticed::Followed } else { Noticed::Kept })
            }
            _ => {
                self.jump = Some(Jump { wall_offset: found, since: mono });
                Some(Noticed::Jump((found - self.wall_offset) / 1_000_000))
            }
        }
    }

    fn trouble(&self, mono: i64) -> Option<ClockTrouble> {
        let ahead = self.offset - self.wall_offset;
        match (self.behind, &self.jump) {
            (Some(newest), _) => {
                let wall = self.jump.as_ref().map_or(self.wall_offset, |jump| jump.wall_offset) + mono;
                Some(ClockTrouble::Behind { newest, wall: Timestamp::from_micros(wall) })
            }
            (None, Some(jump)) => {
                Some(ClockTrouble::Jumped { seconds: (jump.wall_offset - self.wall_offset) / 1_000_000 })
            }
            (None, None) if ahead > micros(limits::CLOCK_SKEW) => {
                Some(ClockTrouble::Ahead { seconds: ahead / 1_000_000 })
            }
            (None, None) => None,
        }
    }
}

/// By more than clocks may differ.
fn behind(newest: Timestamp, wall: i64) -> bool {
    newest.micros() - wall > micros(limits::CLOCK_SKEW)
}

fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
