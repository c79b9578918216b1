//! In which order relations have their frames: each as often as all others, shuffled, the same in every run.

/// At least `frames` relations out of `relations`, each equally often, in shuffled order. Each turn of all of them is shuffled
/// by itself: in every cycle each relation has one frame.
pub fn shuffled(relations: usize, frames: usize) -> Vec<usize> {
    let mut order: Vec<usize> = Vec::with_capacity(frames + relations);
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    while order.len() < frames {
        let start = order.len();
        order.extend(0..relations);
        for left in (2..=relations).rev() {
            // Marsaglia's xorshift64.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            order.swap(start + left - 1, start + (state % left as u64) as usize);
        }
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_turn_has_each_relation_once_and_another_order() {
        let order = shuffled(57, 100);
        assert_eq!(order.len(), 114);
        for turn in order.chunks_exact(57) {
            let mut sorted = turn.to_vec();
            sorted.sort_unstable();
            assert!(sorted.iter().copied().eq(0..57) && sorted != turn);
        }
        assert_ne!(order[..57], order[57..]);
        assert_eq!(shuffled(1, 3), [0, 0, 0]);
    }
}
