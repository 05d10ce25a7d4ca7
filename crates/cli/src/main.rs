//! The program `makeway`.

fn main() {}
