/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/* Replaces libbpf's: there is nothing to relocate, and no type to name. */
#pragma once

#define bpf_core_type_id_kernel(type) 0
