//! The world netns: scenarios over real kernel TCP in network namespaces.
pub mod media;
