// SPDX-License-Identifier: MIT OR Apache-2.0
//! Asking the processor for memory ahead of time.

/// Asks the processor to bring `items[i]` into its cache; does nothing where that cannot be said.
#[inline]
pub fn fetch<T>(items: &[T], i: u32) {
    let Some(item) = items.get(i as usize) else {
        return;
    };
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing that the program sees, and SSE is part of x86-64.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(core::ptr::from_ref(item).cast()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = item;
}
