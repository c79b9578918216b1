//! Places that values of the configuration came from.

/// The line or the file that a value came from. It is no part of what the configuration says: any two are equal, so that
/// two configurations are equal if they say the same, wherever that stands.
#[derive(Clone, Copy, Debug)]
pub struct Origin<T>(pub T);

impl<T> PartialEq for Origin<T> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl<T> Eq for Origin<T> {}
