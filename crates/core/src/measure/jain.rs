// SPDX-License-Identifier: MIT OR Apache-2.0
//! Jain's fairness index.

/// `(sum y)^2 / (n sum y^2)`: 1 when all are equal, `1/n` when one has everything.
///
/// `None` if there is no share or all of them are zero. Source: Jain, Chiu, Hawe, DEC-TR-301, 1984.
pub fn jain(shares: impl IntoIterator<Item = f64>) -> Option<f64> {
    let (mut n, mut sum, mut squares) = (0u32, 0.0, 0.0);
    for y in shares {
        n += 1;
        sum += y;
        squares += y * y;
    }
    (squares > 0.0).then(|| sum * sum / (f64::from(n) * squares))
}

#[cfg(test)]
mod tests {
    use super::jain;

    #[test]
    fn equal_shares_are_perfectly_fair() {
        assert_eq!(jain([3.0, 3.0, 3.0]), Some(1.0));
    }

    #[test]
    fn one_of_four_with_everything_is_a_quarter() {
        assert_eq!(jain([8.0, 0.0, 0.0, 0.0]), Some(0.25));
    }

    #[test]
    fn nothing_shared_has_no_index() {
        assert_eq!(jain([]), None);
        assert_eq!(jain([0.0, 0.0]), None);
    }
}
