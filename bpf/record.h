/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/* The record of a flow's behaviour, and the class that follows from it. Twin of core/sched/makeway/record.rs, where each constant
 * and each rule has its reason; docs/disciplines/makeway.md is the specification. */
#pragma once

#include "kernel.h"

#define MS (1000 * 1000ULL)
#define SECOND (1000 * MS)

#define TRIAL (2 * SECOND)
#define STANDS (250 * MS)
#define CREDIT ((s64)(2 * SECOND))
#define CREDIT_MOST ((s64)(8 * SECOND))
#define EARNS 4
#define REDEEMS (8 * SECOND)
#define DEMERITS 2
#define DEMERITS_MOST 6
#define PAROLE 2
#define FORGOTTEN (3 * SECOND)
#define FORGOTTEN_STANDING (30 * SECOND)
#define WINDOW_BITS 29
#define NO_TCP 8
#define RTT_LEAST (20 * MS >> 16)
#define WAIT_MOST (500 * MS >> 16)
#define PACKETS 16
#define WINDOWS 2
#define COUNTS 4
#define GREW_MOST 4
#define ASKED_OF 16
#define ASKED_LEN 512
#define HOG 8
#define LATEST (5 * SECOND)
#define FLOODS 4
#define SILENT_MOST 8

enum class {
	NEW,
	STANDING,
	BULK,
	/* It starved as bulk, and is served as those in standing until it has shown that it does not grow. */
	PROBATION,
	/* The window says nothing. */
	UNDECIDED,
};

/* Does the flow respond to loss? */
enum question {
	NOT_ASKED,
	/* In the window in which it was asked first. */
	ASKED,
	/* In the window that is compared. */
	WAITS,
	/* No more: in the window after, in which TCP over a short RTT has back what it gave. */
	AFTER,
};

/* Why a flow is in its class, for its owner to read; nothing follows from it. In the order of core's `Reason`. */
enum why {
	BEGINS,
	RELEASED,
	NO_QUEUE,
	STARVED,
	STANDING_QUEUE,
	RESPONDS_TO_LOSS,
	GREW,
	UNPROVEN,
};

/* Bytes that the link sent in the last whole window: of all, of flows in standing and of new ones. */
struct link {
	u64 sent;
	u64 standing;
	u64 new;
	/* The buffer was never empty in that window: bulk waits, or those that go first have more than the link. */
	bool contended;
	/* It was empty, and bulk had no packets waiting. */
	bool quiet;
	/* It was never empty, and flows in standing had packets waiting for all of that window; or those hold most of the buffer. */
	bool crowded;
	/* Bulk of other users waits, or did while packets of flows in standing left, in that window or since. */
	bool others;
	/* Bytes of flows that rose to standing or probation in that window or since. */
	u64 raised;
};

struct record {
	/* Since when it is in its class, or has a demerit less. */
	u64 since;
	/* Since when it is in its class. */
	u64 entered;
	/* When it last lost a packet to a queue, or had a queue that stood. */
	u64 offence;
	/* Since when it has had packets waiting. */
	u64 busy;
	/* When a packet of it last came or left. */
	u64 seen;
	/* Ns for which its queue may still stand, in standing or on probation. */
	s64 credit;
	/* Bytes of all that went first in such windows, of which each counts twice as much as the one before. */
	u64 beside;
	/* The window, and what came in it: bytes, packets, those lost, the shortest wait in units of 2^16 ns. */
	u32 window;
	u32 came;
	u32 arrivals;
	u32 losses;
	u32 wait;
	/* Packets that waited as the window began. */
	u32 held;
	/* Bytes of a window above which the flow is asked. */
	u32 proven;
	/* The most bytes that it brought in each of two windows in a row while it could have brought more. */
	u32 own;
	/* The most that `own` grows to in standing beside bulk. */
	u32 own_most;
	/* Bytes of the window in which it was asked last, and of the window before this one. */
	u32 before;
	u32 last;
	/* Bytes of the window that was compared, if it fell by an eighth. */
	u32 fell;
	/* The most bytes that it brought in a window that was not crowded. */
	u32 peak;
	/* Ms for which its queue stood, where that is why. */
	u32 stood;
	/* `enum class` and `enum question`. */
	u8 class;
	u8 question;
	u8 why;
	u8 demerits;
	u8 starved;
	/* How often it grew on probation, at most GREW_MOST. */
	u8 grew;
	/* Large packets since one was taken to ask. */
	u8 due;
	/* Silent windows before this one, at most SILENT_MOST. */
	u8 silent;
	/* Windows in a row that make a flood, at most FLOODS. */
	u8 drowned;
	bool known;
	/* In the last window it brought more than 1/HOG of the link; its packets had ASKED_LEN on average. */
	bool hogs;
	bool large;
	/* The buffer took a packet of it while it had more than half of the link and no bulk waited; it passed a test, or probation. */
	bool filled;
	bool tested;
};

inline_always u64 since(u64 now, u64 then)
{
	u64 past = now - then;

	/* Without it the compiler makes this a saturating difference, of twice as many instructions. */
	barrier_var(past);
	return now > then ? past : 0;
}

inline_always u32 window_of(u64 now)
{
	return now >> WINDOW_BITS;
}

/* `a + b`, or the most there is. */
inline_always u32 sum_of(u32 a, u32 b)
{
	u32 sum = a + b;

	barrier_var(sum);
	return sum < a ? ~0U : sum;
}

/* Half as much again. */
inline_always u32 half_more(u32 bytes)
{
	return sum_of(bytes, bytes / 2);
}

/* In standing, or on probation. */
inline_always bool goes_first(enum class class)
{
	return class == STANDING || class == PROBATION;
}

/* A packet comes while `packets` wait: whether the flow is unknown, or has been silent for so long that it is. */
inline_always bool record_is_forgotten(const struct record *record, u32 packets, u64 now)
{
	if (packets)
		return false;
	return !record->known || record->seen + (goes_first(record->class) ? FORGOTTEN_STANDING : FORGOTTEN) < now;
}

/* A new flow; what it did wrong is not forgotten. */
inline_always void record_begin(struct record *record, u64 now)
{
	u8 demerits = record->known ? record->demerits : DEMERITS;

	*record = (struct record){
		.known = true,
		.demerits = demerits,
		.since = now,
		.entered = now,
		.offence = now,
		.busy = now,
		.seen = now,
		.credit = CREDIT,
		.window = window_of(now),
		.wait = ~0U,
	};
}

/* Whether its queue, of `packets`, stands. */
inline_always bool record_stands(const struct record *record, u32 packets, u64 now)
{
	return packets && record->busy + STANDS < now;
}

/* Credit for the time since the last packet, before the next comes or goes. */
inline_always void record_account(struct record *record, u32 packets, u64 now)
{
	u64 stands_from = now;

	/* Mostly the queue does not stand. */
	if (record_stands(record, packets, now)) {
		stands_from = record->busy + STANDS;
		if (stands_from < record->seen)
			stands_from = record->seen;
		if (stands_from < now)
			record->offence = now;
		else
			stands_from = now;
	}
	/* Of others it begins anew as they come to go first. */
	if (goes_first(record->class)) {
		record->credit += since(stands_from, record->seen) / EARNS;
		if (record->credit > CREDIT_MOST)
			record->credit = CREDIT_MOST;
		record->credit -= now - stands_from;
	}
	record->seen = now;
}

/* Bytes that it brings in a window: those of the last one, as far as it has brought or shown them before. */
inline_always u32 record_usual(const struct record *record)
{
	u32 known = record->peak > record->proven ? record->peak : record->proven;

	return record->last < known ? record->last : known;
}

inline_always void record_arrival(struct record *record, u32 len)
{
	record->came = sum_of(record->came, len);
	record->arrivals++;
}

/* Whether it is new and has lost nothing. */
inline_always bool record_is_clean(const struct record *record)
{
	return record->class == NEW && record->offence == record->since;
}

/* A packet that waited for `wait` leaves; in standing, its queue does not stand if that is less than `short_wait`, ns. */
inline_always void record_departure(struct record *record, u64 now, u64 wait, u64 short_wait)
{
	if (goes_first(record->class) && wait < short_wait)
		record->busy = now;
	wait >>= 16;
	if (wait > WAIT_MOST)
		wait = WAIT_MOST;
	if (wait < record->wait)
		record->wait = wait;
}

inline_always void record_loss(struct record *record, u64 now, u32 packets)
{
	record->losses += packets;
	record->offence = now;
}

/* A full buffer took a packet of it while no bulk waited, and the link sent `sent` in the last window. */
inline_always void record_full(struct record *record, u64 sent)
{
	if ((u64)record->last * 2 > sent)
		record->filled = true;
}

/* Bulk that ignores its losses, and does not fit. */
inline_always bool record_floods(const struct record *record)
{
	return record->drowned == FLOODS;
}

inline_always void record_change(struct record *record, u64 now, enum class class, enum why why)
{
	u32 shown;

	record->entered = now;
	record->why = why;
	record->stood = why == STANDING_QUEUE ? since(now, record->busy) / MS : 0;
	if (class == BULK) {
		if (record->demerits < DEMERITS_MOST)
			record->demerits++;
		record->question = NOT_ASKED;
	}
	if (record->class != PROBATION || class != STANDING)
		record->credit = CREDIT;
	if (class == STANDING) {
		shown = record->own > record->last ? record->own : record->last;
		record->own_most = sum_of(shown, shown);
	}
	record->class = class;
	record->since = now;
	record->offence = now;
	record->starved = 0;
}

/* A flow that brings `came` in a window can go first beside those in standing. */
inline_always bool link_fits(const struct link *link, u32 came)
{
	u64 standing = link->standing + link->raised;
	u32 part = link->others && standing * 8 > link->sent ? 6 : 9;

	return !link->crowded && (standing + came) * 10 <= link->sent * part;
}

/* Bytes that it may bring in a window: those of the last one, or its peak. Of packets that are rare, few or none may be in one window. */
inline_always u32 record_most(const struct record *record)
{
	return record->last > record->peak ? record->last : record->peak;
}

/* By its queue and its losses. */
inline_always enum class record_by_queue(struct record *record, u32 packets, u64 now, const struct link *link)
{
	u64 from = record->since, sentence;
	bool fits;

	switch (record->class) {
	case NEW:
		if (record_stands(record, packets, now))
			return BULK;
		if (now <= from + TRIAL || record->question != NOT_ASKED)
			return NEW;
		fits = !link->contended || link_fits(link, record_most(record));
		if (fits && now > record->offence + TRIAL / 2)
			return STANDING;
		if (now <= from + TRIAL * 2)
			return NEW;
		/* Asked, it went on: its losses are the doing of others that begin. */
		if (record->proven && fits)
			return STANDING;
		return record->hogs && now <= from + LATEST ? NEW : BULK;
	case PROBATION:
		if (record->credit <= 0)
			return BULK;
		if (now <= from + TRIAL * 2)
			return PROBATION;
		record->grew = 0;
		record->tested = true;
		return STANDING;
	case STANDING:
		if (record->credit <= 0)
			return BULK;
		if (now > from + REDEEMS) {
			if (record->demerits)
				record->demerits--;
			record->since = now;
		}
		return STANDING;
	}
	sentence = SECOND << (record->demerits & 7);
	if (now > record->offence + sentence && (!record->hogs || record->last <= half_more(record->own)))
		return NEW;
	if (record->demerits <= PAROLE && now > from + sentence)
		return NEW;
	return BULK;
}

/* Why `record_by_queue` says so. */
inline_always enum why record_why(const struct record *record, enum class to, u32 packets, u64 now)
{
	if (record->class == PROBATION && to == STANDING)
		return STARVED;
	if (to == NEW)
		return RELEASED;
	if (to == STANDING)
		return NO_QUEUE;
	if (record->class == NEW && !record_stands(record, packets, now))
		return UNPROVEN;
	return STANDING_QUEUE;
}

/* Whether it brings more than `times` what TCP would at its loss and its RTT (Floyd and Fall 1999), squared. */
inline_always bool record_exceeds_tcp(u64 product, u64 rtt, u64 times)
{
	u64 windows = times * (1ULL << (WINDOW_BITS - 16)) / rtt;

	return product * 100 > windows * windows * 149;
}

/* Whether it starves in this window, of PACKETS or more, and then how much that counts, 1 or COUNTS. */
inline_always u8 record_starves(const struct record *record, u32 grown)
{
	u64 rtt = (record->wait < WAIT_MOST ? record->wait : WAIT_MOST) + RTT_LEAST;
	u64 unserved = (u64)record->losses + grown, product = record->arrivals * unserved;

	/* In such loss TCP waits for timeouts. */
	if (record->arrivals >= PACKETS * 2 && record->losses * 4 >= record->arrivals * 3)
		return COUNTS;
	if (unserved * 4 >= record->arrivals && record_exceeds_tcp(product, rtt, NO_TCP))
		return COUNTS;
	return unserved * 5 >= record->arrivals && record_exceeds_tcp(product, rtt, 1);
}

/* It is bulk by what it brought. */
inline_always enum class record_falls(struct record *record, enum why why)
{
	record->why = why;
	return BULK;
}

/* Flows that go before bulk leave half to it, and could have more. */
inline_always bool has_room(const struct link *link)
{
	return (link->standing + link->new) * 2 <= link->sent;
}

/* In standing while those are crowded, it has brought a quarter more than it ever did while they were not. */
inline_always bool record_exceeds(const struct record *record, const struct link *link)
{
	u64 most, usual;

	if (record->class != STANDING || !link->crowded)
		return false;
	most = record->last > record->came ? record->last : record->came;
	if (most * 2 >= link->standing)
		return false;
	usual = (u64)sum_of(record->peak, record->peak / 4) * (1 + record->silent);
	if (usual > ~0U)
		usual = ~0U;
	return record->came > usual && record->came > record->proven;
}

#include "question.h"

/* On probation, it has brought more in this window than it does in one when it starves. Its arrivals follow its share: their rate
 * is not its own. It may after a silence, when it brings what a stall held back. */
inline_always bool record_grows(const struct record *record, const struct link *link)
{
	bool hogs = (u64)record->came * HOG >= link->sent;

	return record->class == PROBATION && record->last && hogs && record->came > record->proven;
}

/* By what it brought in the window that ended, after which `packets` wait. */
inline_always enum class record_turn_window(struct record *record, u32 packets, u64 now, const struct link *link)
{
	u32 at = window_of(now), came = record->came, brought, windows, most, silent;
	u8 starves = 0;
	bool whole, steady, resumes, drowns = false, exceeds = record_exceeds(record, link), fits;

	if (at == record->window && exceeds)
		return record_falls(record, GREW);
	if (at == record->window) {
		if (!record_grows(record, link))
			return UNDECIDED;
		if (record->grew < GREW_MOST)
			record->grew++;
		return record_falls(record, GREW);
	}
	whole = at == record->window + 1;
	resumes = !record->last;
	if (whole && record->arrivals >= PACKETS && record->class == BULK) {
		/* TCP that overshot falls; a stream goes on. */
		steady = (u64)came * 4 >= (u64)record->last * 3 && record->last;
		/* A deep buffer keeps what a shallow one drops. */
		if (steady)
			starves = record_starves(record, packets > record->held ? packets - record->held : 0);
		drowns = record->losses * 2 >= record->arrivals;
	}
	if (!link->crowded) {
		/* Without one each of its windows was crowded so far. */
		most = record->class == NEW || !record->peak ? ~0U : sum_of(record->peak, record->peak / 8);
		if (most > came)
			most = came;
		if (most > record->peak)
			record->peak = most;
	}
	silent = at - (record->window + 1);
	record->silent = silent < SILENT_MOST ? silent : SILENT_MOST;
	if (whole && (link->quiet || has_room(link)) && (record->class == NEW || record->class == STANDING)) {
		brought = came < record->last ? came : record->last;
		if (record->class == STANDING && !link->quiet && brought > record->own_most)
			brought = record->own_most;
		if (brought > record->own)
			record->own = brought;
		record->beside = (record->beside + link->standing + link->new) / 2;
	}
	record->last = whole ? came : 0;
	record->large = whole && came >= (u64)ASKED_LEN * record->arrivals && came >= ASKED_LEN;
	record->hogs = whole && link->sent && (u64)came * HOG >= link->sent;
	record->starved = starves ? record->starved + starves : 0;
	record->window = at;
	record->came = 0;
	record->arrivals = 0;
	record->losses = 0;
	record->wait = ~0U;
	record->held = packets;
	if (record->class != BULK) {
		record->starved = 0;
		record->drowned = 0;
		if (whole && exceeds)
			return record_falls(record, GREW);
	}
	if (record->class == PROBATION)
		return UNDECIDED;
	if (record->class != BULK)
		return record_answer(record, whole, resumes, record->class == NEW && record->since + TRIAL * 2 < now, link);
	fits = link_fits(link, came);
	if (!drowns || fits)
		record->drowned = 0;
	else if (record->drowned < FLOODS)
		record->drowned++;
	windows = WINDOWS * COUNTS << (record->grew & 7);
	if (record->starved > windows)
		record->starved = windows;
	if (record->starved < windows || !fits)
		return UNDECIDED;
	record->proven = half_more(came);
	record->why = STARVED;
	return PROBATION;
}

/* As a packet comes while `packets` wait: whether `record_judge` would change nothing, on any link. Mostly it would, and need not be
 * called. */
inline_always bool record_is_settled(const struct record *record, u32 packets, u64 now)
{
	u64 sentence;

	if (window_of(now) != record->window)
		return false;
	switch (record->class) {
	case NEW:
		return now <= record->since + TRIAL && !record_stands(record, packets, now);
	case STANDING:
		return (record->came <= sum_of(record->peak, record->peak / 4) || record->came <= record->proven) &&
		       record->credit > 0 && now <= record->since + REDEEMS;
	case BULK:
		sentence = SECOND << (record->demerits & 7);
		return now <= record->offence + sentence &&
		       (record->demerits > PAROLE || now <= record->since + sentence);
	}
	return false;
}

/* The class that it should be in, as a packet comes while `packets` wait. */
inline_always enum class record_judge(struct record *record, u32 packets, u64 now, const struct link *link)
{
	enum class verdict = record_turn_window(record, packets, now, link);
	bool by_queue = verdict == UNDECIDED;

	if (by_queue)
		verdict = record_by_queue(record, packets, now, link);
	if (verdict != record->class)
		record_change(record, now, verdict, by_queue ? record_why(record, verdict, packets, now) : record->why);
	return verdict;
}
