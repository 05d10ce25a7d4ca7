// SPDX-License-Identifier: MIT OR Apache-2.0
//! The list of disciplines, of which [`Discipline`](super::Discipline) and [`Spec`](super::Spec) are made.

/// Declares the module of each discipline and gives it its place in `Discipline` and `Spec`: its line in `sched.rs` and its own file are all
/// that it takes. The file of `red::RedParams` is `sched/red.rs`.
macro_rules! disciplines {
    ($($variant:ident($module:ident::$params:ident)),* $(,)?) => {
        $(
            pub mod $module;
            pub use $module::$params;
        )*

        /// The disciplines by name; see [`Discipline::about`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[allow(missing_docs)] // Its own file has it.
        #[non_exhaustive]
        pub enum Discipline {
            $($variant),*
        }

        /// A discipline with its parameters.
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[allow(missing_docs)]
        #[non_exhaustive]
        pub enum Spec {
            $($variant($params)),*
        }

        impl Discipline {
            /// Every discipline, in the order in which they are listed to people.
            pub const ALL: [Self; [$(Self::$variant),*].len()] = [$(Self::$variant),*];

            /// The name in files and on the command line.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => <$params as $crate::sched::spec::Describe>::NAME),*
                }
            }

            /// Other names that are understood.
            pub const fn aliases(self) -> &'static [&'static str] {
                match self {
                    $(Self::$variant => <$params as $crate::sched::spec::Describe>::ALIASES),*
                }
            }

            /// Order of service, in one line.
            pub const fn about(self) -> &'static str {
                match self {
                    $(Self::$variant => <$params as $crate::sched::spec::Describe>::ABOUT),*
                }
            }

            /// Whether BPF qdiscs have it.
            pub const fn is_in_the_kernel(self) -> bool {
                match self {
                    $(Self::$variant => <$params as $crate::sched::spec::Describe>::IN_THE_KERNEL),*
                }
            }

            /// With its default parameters.
            pub fn spec(self) -> Spec {
                match self {
                    $(Self::$variant => Spec::$variant(<$params>::default())),*
                }
            }

            /// With the parameters of an access link: the defaults, but where a discipline's gains there rest on others.
            pub fn on_a_link(self) -> Spec {
                match self {
                    $(Self::$variant => Spec::$variant($crate::sched::spec::Describe::on_a_link())),*
                }
            }
        }

        impl Spec {
            /// Which discipline it is.
            pub const fn discipline(&self) -> Discipline {
                match self {
                    $(Self::$variant(_) => Discipline::$variant),*
                }
            }

            /// Its needs, and its changes to packets.
            pub fn needs(&self) -> $crate::sched::spec::Needs {
                match self {
                    $(Self::$variant(params) => $crate::sched::spec::Describe::needs(params)),*
                }
            }

            /// Shows its parameters to `visit`, by the keys of a scenario's `queue`.
            pub fn fields(&mut self, visit: &mut $crate::param::Visitor<'_>) {
                match self {
                    $(Self::$variant(params) => $crate::sched::spec::Describe::fields(params, visit)),*
                }
            }

            /// Code of the tags of its packets, where tickets are written by `domain`.
            pub fn codec(&self, domain: $crate::ticket::Codec) -> $crate::ticket::Codec {
                match self {
                    $(Self::$variant(params) => $crate::sched::spec::Describe::codec(params, domain)),*
                }
            }

            /// The key of a parameter whose value BPF qdiscs do not have.
            pub fn not_in_the_kernel(&self) -> Option<&'static str> {
                match self {
                    $(Self::$variant(params) => $crate::sched::spec::Describe::not_in_the_kernel(params)),*
                }
            }

            fn relations(&self) -> Result<(), alloc::string::String> {
                match self {
                    $(Self::$variant(params) => $crate::sched::spec::Describe::check(params)),*
                }
            }

            fn make(&self, env: &$crate::sched::spec::Env) -> alloc::boxed::Box<dyn $crate::sched::Scheduler + Send> {
                match self {
                    $(Self::$variant(params) => $crate::sched::spec::Describe::build(params, env)),*
                }
            }
        }
    };
}

pub(super) use disciplines;
