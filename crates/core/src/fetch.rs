// SPDX-License-Identifier: MIT OR Apache-2.0
//! Prefetching of memory into the processor's cache.

/// Asks the processor to bring `items[i]` into its cache; does nothing where that cannot be said.
#[inline]
pub fn fetch<T>(items: &[T], i: u32) {
    if let Some(item) = items.get(i as usize) {
        fetch_line(core::ptr::from_ref(item).cast());
    }
}

/// The same for items that are longer than a cache line: its first and its last byte.
#[inline]
pub fn fetch_both_ends<T>(items: &[T], i: u32) {
    if let Some(item) = items.get(i as usize) {
        let first = core::ptr::from_ref(item).cast::<u8>();
        fetch_line(first);
        fetch_line(first.wrapping_add(size_of::<T>().saturating_sub(1)));
    }
}

#[inline]
fn fetch_line(byte: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing that the program sees, and SSE is part of x86-64.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(byte.cast()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = byte;
}
