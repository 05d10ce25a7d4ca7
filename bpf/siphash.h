/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/* SipHash-1-3: a hash under a key, whose collisions nobody can choose who does not know the key.
 *
 * Source: J.-P. Aumasson, D. J. Bernstein, "SipHash: a fast short-input PRF", INDOCRYPT 2012, section 2; one round for
 * each word and three at the end. */
#pragma once

struct siphash {
	u64 v[4];
};

#define ROTATE(x, n) ((x) << (n) | (x) >> (64 - (n)))

inline_always struct siphash siphash_begin(u64 k0, u64 k1)
{
	return (struct siphash){ {
		k0 ^ 0x736f6d6570736575ULL,
		k1 ^ 0x646f72616e646f6dULL,
		k0 ^ 0x6c7967656e657261ULL,
		k1 ^ 0x7465646279746573ULL,
	} };
}

inline_always void siphash_round(struct siphash *hash)
{
	u64 *v = hash->v;

	v[0] += v[1];
	v[2] += v[3];
	v[1] = ROTATE(v[1], 13) ^ v[0];
	v[3] = ROTATE(v[3], 16) ^ v[2];
	v[0] = ROTATE(v[0], 32);
	v[2] += v[1];
	v[0] += v[3];
	v[1] = ROTATE(v[1], 17) ^ v[2];
	v[3] = ROTATE(v[3], 21) ^ v[0];
	v[2] = ROTATE(v[2], 32);
}

inline_always void siphash_word(struct siphash *hash, u64 word)
{
	hash->v[3] ^= word;
	siphash_round(hash);
	hash->v[0] ^= word;
}

inline_always u64 siphash_end(struct siphash *hash)
{
	hash->v[2] ^= 0xff;
	for (int n = 0; n < 3; n++)
		siphash_round(hash);
	return hash->v[0] ^ hash->v[1] ^ hash->v[2] ^ hash->v[3];
}
