/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/* The place of an entry in a list that any entry can leave. */
#pragma once

#include "kernel.h"

struct links {
	u32 prev;
	u32 next;
};
