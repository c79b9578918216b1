//! Groups of KaYs on a bus with a clock held in the hand: who becomes key server, what is installed when, and that no frame
//! is lost on the way from one SAK to the next. Everything follows from a seed.

mod secy;
mod world;

mod alone;
mod caks;
mod extensions;
mod forgotten;
mod group;
mod hostile;
mod listeners;
mod names;
mod parted;
mod partial;
mod passed_on;
mod recorded;
mod refused;
mod rekeys;
mod rogue;
mod scripted;
mod station;
mod storm;
mod takeover;
mod two;
