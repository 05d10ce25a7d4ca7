//! The router on real Linux: NFQUEUE datapath, shaper, rules, control.
