//! What a standing is, without IO: values, calendars, boards, events, and the plan of an event.
//!
//! Nothing here is asynchronous, knows Redis or HTTP, or reads a clock: time is an argument. A reader
//! starts at [`plan`]: it says which standings an event belongs to, and with what amount.

pub mod access;
pub mod address;
pub mod audit;
pub mod blocklist;
pub mod board;
pub mod closing;
pub mod data;
pub mod delivery;
pub mod document;
pub mod draft;
pub mod edition;
pub mod erasure;
pub mod event;
pub mod export;
pub mod hide;
pub mod ids;
pub mod include;
pub mod instance;
pub mod intake;
pub mod league;
pub mod message;
pub mod name;
pub mod part;
pub mod period;
pub mod placement;
pub mod plan;
pub mod preview;
pub mod profile;
pub mod queued;
pub mod quota;
pub mod reward;
pub mod score;
pub mod secret;
pub mod series;
pub mod session;
pub mod shard;
pub mod state;
pub mod stream_token;
pub mod task;
pub(crate) mod texts;
pub mod ties;
pub mod time;
pub mod timezone;
pub mod webhook;
pub mod weight;
pub mod window;
