/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/* The test of a flow that goes first: whether it responds to loss, or takes all that there is. Twin of
 * core/sched/makeway/record/question.rs. Included by record.h after the functions that it calls. */
#pragma once

/* Whether the packet of `len` that comes is the question; it is in the window's counts. */
inline_always bool record_is_asked(struct record *record, u32 len)
{
	u32 mean;

	if (record->question != ASKED && record->question != WAITS)
		return false;
	/* A flow whose packets are all small is asked with them. */
	mean = record->arrivals ? record->came / record->arrivals : record->came;
	if (len < (mean < ASKED_LEN ? mean : ASKED_LEN))
		return false;
	if (++record->due < ASKED_OF)
		return false;
	record->due = 0;
	return true;
}

/* Bytes that it brought as it was asked. After a burst, a stream falls back to what it has shown, which is no response. */
inline_always u32 record_before(const struct record *record)
{
	u32 shown = record->proven / 3 * 2;

	return record->proven && shown < record->before ? shown : record->before;
}

/* The question of a flow that goes first. In standing, one that `resumes` after a silence brings what a stall held back,
 * and less after it. */
inline_always enum class record_answer(struct record *record, bool whole, bool resumes, bool overdue, const struct link *link)
{
	u32 came = record->last, shown;
	bool is_open;

	if (!whole) {
		record->question = NOT_ASKED;
		return UNDECIDED;
	}
	switch (record->question) {
	case NOT_ASKED:
		if (link->contended && record->beside * 16 <= link->sent * 15) {
			shown = half_more(record->own);
			if (came <= shown && shown > record->proven)
				record->proven = shown;
		}
		/* Mostly it brings too little to be asked. */
		if (!record->hogs && !(link->crowded && record->large))
			return UNDECIDED;
		is_open = came > record->proven || (record->filled && !record->tested);
		/* TCP that begins has lost a packet by now, or takes more than half. */
		is_open &= !record_is_clean(record) || !has_room(link);
		is_open &= (record->class == NEW || !resumes) && link->contended;
		/* Losses say nothing of a stream whose bursts are longer than the buffer. Alone on the link it could only be TCP. */
		is_open |= overdue && !record->proven && record->hogs && came <= link->sent && (link->sent - came) * HOG >= link->sent;
		if (is_open) {
			if (record->class == STANDING && link->standing * 4 > link->sent * 3)
				return record_falls(record, GREW);
			record->question = ASKED;
			record->before = came;
			record->due = ASKED_OF - 1;
		}
		return UNDECIDED;
	case ASKED:
		if (came < record_before(record) / 2)
			return record_falls(record, RESPONDS_TO_LOSS);
		record->question = WAITS;
		if (came > record->before)
			record->before = came;
		return UNDECIDED;
	}
	if (came / 4 > record->before / 3)
		return record_falls(record, GREW);
	/* A queue that TCP had as it was asked hides its response for as long as it lasts. */
	if ((u64)came * 16 < (u64)record_before(record) * 11)
		return record_falls(record, RESPONDS_TO_LOSS);
	if (record->question == WAITS) {
		record->question = AFTER;
		record->fell = (u64)came * 8 < (u64)record->before * 7 ? came : ~0U;
		return UNDECIDED;
	}
	if ((u64)record->fell * 16 < (u64)came * 11)
		return record_falls(record, RESPONDS_TO_LOSS);
	shown = came > record->before ? came : record->before;
	record->proven = half_more(shown);
	record->question = NOT_ASKED;
	record->tested = true;
	return UNDECIDED;
}
