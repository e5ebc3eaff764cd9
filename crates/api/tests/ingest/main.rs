//! Events coming in: what is accepted, what is refused, and that nothing is left behind by what is refused.

mod answers;
mod bad_input;
mod cloud_events;
mod connections;
mod framing;
mod guesses;
mod overload;
mod past_the_router;
mod verification;
mod ways_in;
mod world;
