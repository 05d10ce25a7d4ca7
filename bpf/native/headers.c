/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/* The headers' arithmetic, compiled for the machine's own processor: reads questions and answers each. */
#include <stdio.h>
#include <stdlib.h>

#include "../kernel.h"
#include "../framing.h"
#include "../pool.h"
#include "../order.h"
#include "../wide.h"

enum what {
	ASK_WIRE,
	ASK_SEGMENTS,
	ASK_INSERT,
	ASK_REMOVE,
	ASK_FIRST,
	ASK_LAST,
	ASK_UPDATE,
	ASK_SHORTEST,
	ASK_LONGEST,
	ASK_PRODUCT,
	ASK_OVER,
	ASK_RATIO,
};

struct question {
	u64 what;
	/* The operands, in the order of the function's. */
	u64 of[6];
};

static struct bitmap bitmap;

static struct wide answer(const struct question *question)
{
	const u64 *of = question->of;
	struct framing framing = { of[0], of[1], of[2] };
	struct wide a = { of[0], of[1] }, b = { of[2], of[3] };

	switch (question->what) {
	case ASK_WIRE:
		return (struct wide){ 0, framing_wire(&framing, of[3]) };
	case ASK_SEGMENTS:
		return (struct wide){ 0, framing_segments(&framing, of[3], of[4], of[5]) };
	case ASK_INSERT:
		bitmap_insert(&bitmap, of[0]);
		break;
	case ASK_REMOVE:
		bitmap_remove(&bitmap, of[0]);
		break;
	case ASK_FIRST:
		return (struct wide){ 0, bitmap_first(&bitmap) };
	case ASK_LAST:
		return (struct wide){ 0, bitmap_last(&bitmap) };
	case ASK_UPDATE:
		order_update(of[0], of[1], of[2]);
		break;
	case ASK_SHORTEST:
		return (struct wide){ 0, order_shortest() };
	case ASK_LONGEST:
		return (struct wide){ 0, order_longest() };
	case ASK_PRODUCT:
		return wide_product(of[0], of[1]);
	case ASK_OVER:
		return wide_over(a, of[2]);
	case ASK_RATIO:
		return wide_ratio(a, b);
	}
	return (struct wide){ 0, 0 };
}

int main(void)
{
	struct question question;

	while (fread(&question, sizeof(question), 1, stdin) == 1) {
		struct wide told = answer(&question);

		fwrite(&told, sizeof(told), 1, stdout);
	}
	return 0;
}
