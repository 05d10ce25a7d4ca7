//! DCCP in user space.
